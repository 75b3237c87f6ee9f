"""The operations of budgets. Standard library alone; `operations.budgeting` carries them out."""

from sm.core.dataclass import dataclass
from sm.operations import AgentOperation, Operation
from sm.wire_types.budget import BudgetReportView


@dataclass(frozen=True, slots=True)
class BudgetChange:
    """Exactly one of both."""

    set: str | None = None
    """Limits such as `usd=5,tokens=none`: other units stay as they are; `none` ends the budget."""
    add: str | None = None
    """Amounts to add to the limits, such as `usd=2`."""


SHOW = AgentOperation(
    "budget",
    "Show the budget of a session, and the rest of those above it.",
    "GET /v1/sessions/{ref}/budget",
    BudgetReportView,
    command="budget SESSION",
)
CHANGE = AgentOperation(
    "change",
    "Set, raise, lower or end the budget of a session. A session may only lower its own.",
    "POST /v1/sessions/{ref}/budget",
    BudgetReportView,
    BudgetChange,
    command="budget SESSION --set LIMITS",
)
SHOW_DAY = Operation(
    "budget_of_day",
    "Show the daily budget of the instance.",
    "GET /v1/budget",
    BudgetReportView,
    command="budget daily",
)
CHANGE_DAY = Operation(
    "change_of_day",
    "Change the daily budget of the instance until the end of the day.",
    "POST /v1/budget",
    BudgetReportView,
    BudgetChange,
    command="budget daily --set LIMITS",
)
OPERATIONS = (SHOW, CHANGE, SHOW_DAY, CHANGE_DAY)
