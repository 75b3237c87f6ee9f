"""Budgets in answers."""

from collections.abc import Sequence

from sm.core.dataclass import dataclass
from sm.core.statuses import Tolerant
from sm.wire_types.fields import Time


class BudgetState(Tolerant):
    """The values are stored in the database, so they never change."""

    OK = "ok"
    SOFT = "soft"
    """Most of the budget is spent, and everybody concerned has been told."""
    GRACE = "grace"
    """The budget is spent: no turn begins, and agents at work report what they have."""
    STOPPED = "stopped"
    """The budget is spent, and its sessions are paused or killed."""
    TOLD = "told"
    """The budget is spent, and everybody concerned has been told. It binds nobody (`on_limit: notice`)."""


@dataclass(frozen=True, slots=True)
class AmountsView:
    """Amounts by unit."""

    usd: float | None
    """US dollars, or null without a limit."""
    tokens: int | None
    """Input and output, without the cache, or null without a limit."""
    minutes: float | None
    """Minutes of work, summed over the sessions, or null without a limit."""


@dataclass(frozen=True, slots=True)
class SpentView:
    """The amounts that were spent, also in units without a limit."""

    usd: float
    tokens: int
    minutes: float


@dataclass(frozen=True, slots=True)
class BudgetView:
    """A budget: it binds a session and all sessions below it."""

    limits: AmountsView
    spent: SpentView
    left: AmountsView
    percent: int
    """The largest spent share of a limit, in per cent."""
    state: BudgetState
    """`ok`; `soft`: most of it is spent; `grace`: it is spent, agents report what they have; `stopped`: it is spent,
    and its sessions are stopped, except `unstopped`; `told`: it is spent, and binds nobody."""
    unstopped: int
    """Sessions of a `stopped` budget that sm has not seen to have stopped yet: they may still spend."""
    state_at: Time
    soft_percent: int
    unpriced_tokens: int
    """Tokens of models without a known price: `spent.usd` lacks their cost."""
    request_id: str | None
    """The open request for more."""


@dataclass(frozen=True, slots=True)
class BudgetAboveView:
    """A budget above a session: only its rest."""

    session_id: str | None
    """Null for the daily budget."""
    label: str
    left: AmountsView
    state: BudgetState


@dataclass(frozen=True, slots=True)
class BudgetReportView:
    """The budgets that bind a session."""

    session_id: str | None
    """Null for the daily budget of the instance."""
    label: str
    budget: BudgetView | None
    """Null if the session has no budget of its own."""
    above: Sequence[BudgetAboveView]
    """Nearest first; the daily budget last."""
    warnings: Sequence[str]
    """Sentences for people."""
