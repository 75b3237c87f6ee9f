"""The JSON objects in the answers of the routes of budgets."""

from typing import Annotated

from typing_extensions import TypedDict  # pydantic reads the one of `typing` only from Python 3.12 on

from sm.api.fields import doc
from sm.core.budgets import BudgetState
from sm.wire_types.fields import Time


class AmountsView(TypedDict):
    """Amounts by unit."""

    usd: Annotated[float | None, doc("US dollars; null: no limit.")]
    tokens: Annotated[int | None, doc("Input and output, without the cache; null: no limit.")]
    minutes: Annotated[float | None, doc("Minutes of work, summed over the sessions; null: no limit.")]


class SpentView(TypedDict):
    """The amounts that were spent, also in units without a limit."""

    usd: float
    tokens: int
    minutes: float


class BudgetView(TypedDict):
    """A budget: it binds a session and all sessions below it."""

    limits: AmountsView
    spent: SpentView
    left: AmountsView
    percent: Annotated[int, doc("The largest spent share of a limit, in per cent.")]
    state: Annotated[
        BudgetState,
        doc(
            "`ok`; `soft`: most of it is spent; `grace`: it is spent, agents report what they have; `stopped`: it is "
            "spent, and its sessions are stopped, except `unstopped`; `told`: it is spent, and binds nobody."
        ),
    ]
    unstopped: Annotated[
        int,
        doc("Sessions of a `stopped` budget that sm has not seen to have stopped yet: they may still spend."),
    ]
    state_at: Time
    soft_percent: int
    unpriced_tokens: Annotated[
        int, doc("Tokens of models without a known price: `spent.usd` lacks their cost.")
    ]
    request_id: Annotated[str | None, doc("The open request for more.")]


class BudgetAboveView(TypedDict):
    """A budget above a session: only its rest."""

    session_id: Annotated[str | None, doc("Null: the daily budget.")]
    label: str
    left: AmountsView
    state: BudgetState


class BudgetReportView(TypedDict):
    """The budgets that bind a session."""

    session_id: Annotated[str | None, doc("Null: the daily budget of the instance.")]
    label: str
    budget: Annotated[BudgetView | None, doc("Null: the session has no budget of its own.")]
    above: Annotated[list[BudgetAboveView], doc("Nearest first; the daily budget last.")]
    warnings: Annotated[list[str], doc("Sentences for people.")]
