"""The operations of budgets. Standard library alone; `budgeting` carries them out."""

from sm.core.dataclass import dataclass
from sm.operations import Operation
from sm.operations.access_rules import ABOVE, OPERATOR_AND_OWNERS, SESSION_AND_ABOVE, Audience
from sm.wire_types.budget import BudgetReportView


@dataclass(frozen=True, slots=True)
class BudgetChange:
    """Exactly one of both."""

    set: str | None = None
    """Limits such as `usd=5,tokens=none`: other units stay as they are; `none` ends the budget."""
    add: str | None = None
    """Amounts to add to the limits, such as `usd=2`."""


_LOWER = Audience("lower_budget", "change the budget of", SESSION_AND_ABOVE)
"""A session may restrain itself. For a descendant, what is left above is the limit."""
RAISE = Audience("raise_budget", "raise the budget of", ABOVE)
_DAY = Audience("manage_daily_budget", "see or change the budget of the day", OPERATOR_AND_OWNERS)
SHOW = Operation(
    "budget",
    "Show the budget of a session, and the rest of those above it.",
    "GET /v1/sessions/{ref}/budget",
    BudgetReportView,
    audience=_LOWER,
    command="budget SESSION",
)
CHANGE = Operation(
    "change",
    "Set, raise, lower or end the budget of a session. A session may only lower its own.",
    "POST /v1/sessions/{ref}/budget",
    BudgetReportView,
    BudgetChange,
    audience=_LOWER,
    rules=(RAISE,),
    command="budget SESSION --set LIMITS",
)
SHOW_DAY = Operation(
    "budget_of_day",
    "Show the daily budget of the instance.",
    "GET /v1/budget",
    BudgetReportView,
    audience=_DAY,
    command="budget daily",
)
CHANGE_DAY = Operation(
    "change_of_day",
    "Change the daily budget of the instance until the end of the day.",
    "POST /v1/budget",
    BudgetReportView,
    BudgetChange,
    audience=_DAY,
    command="budget daily --set LIMITS",
)
OPERATIONS = (SHOW, CHANGE, SHOW_DAY, CHANGE_DAY)
