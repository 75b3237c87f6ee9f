"""Follows spawns, and gives what every door shows of a session's budget."""

import logging
from collections.abc import Collection, Sequence
from typing import Any

from sm.capabilities.budgets.budgeting import Budgeting, budget_view
from sm.capabilities.budgets.given_amounts import check_left, parse_limits
from sm.capabilities.budgets.model import (
    DAILY,
    NO_LIMITS,
    Amounts,
    Budget,
    parse_amounts,
)
from sm.capabilities.budgets.rules import lowered
from sm.capabilities.budgets.settings import AgentBudget, BudgetSettings
from sm.capabilities.budgets.state.charges import Budgets
from sm.capabilities.budgets.tables import PART, BudgetReads
from sm.capabilities.budgets.text.sentences import briefing_line, spent_text
from sm.config import AgentConfig
from sm.core.dataclass import dataclass
from sm.core.models import Session, SpawnRequest
from sm.core.text import folded
from sm.core.timers import Timer
from sm.errors import StorageFull
from sm.providers.base import Provider
from sm.sessions.session_fields import SessionField
from sm.sessions.spawn_parts import SpawnAddition, SpawnPart
from sm.store import Store, Transaction
from sm.wire_types.budget import BudgetState

log = logging.getLogger(__name__)

_DIGEST_STATES = {
    BudgetState.SOFT: "most of it is spent",
    BudgetState.GRACE: "it is spent",
    BudgetState.STOPPED: "it is spent",
    BudgetState.TOLD: "it is spent",
}


@dataclass(frozen=True, slots=True)
class SpawnBudget(SpawnAddition):
    """The budget of a new session, if it has limits."""

    reads: BudgetReads
    limits: Amounts = NO_LIMITS
    named: bool = False
    """The caller has named it, so it is never lowered."""
    soft_percent: int = 80
    lowered_from: str = ""
    """The text and the source of limits that were lowered to the rest above, or empty if they were not."""

    @property
    def briefing(self) -> str:
        return briefing_line(self.limits) if self.limits else ""

    @property
    def warnings(self) -> Sequence[str]:
        if not self.lowered_from:
            return ()
        return (f"the budget of {self.lowered_from} was lowered to what is left above: {self.limits}",)

    def planned_warnings(self, session: Session, provider: Provider) -> Sequence[str]:
        return price_warnings(self.reads, session, self.limits, provider)

    def insert(self, tx: Transaction, session: Session) -> None:
        """Store the budget. Raises UsageError for more than is left above."""
        limits = self.limits
        if not limits:
            return
        left = tx.part(PART).left_above(session)
        if self.named:
            check_left(limits, left, "--budget")
        limits = lowered(limits, left)
        tx.part(PART).put(Budget(session.id, limits, self.soft_percent, steps=limits, state_at=tx.now))


class SpawnBudgets(SpawnPart):
    """Decides the budget of a new session: the one of the spawn, of its agent type, or the default."""

    def __init__(self, settings: BudgetSettings, reads: BudgetReads) -> None:
        self._settings = settings
        self._reads = reads

    def plan(self, session: Session, request: SpawnRequest | None, agent: AgentConfig | None) -> SpawnBudget:
        reads, settings = self._reads, self._settings
        named = None if request is None else request.additions.get("budget")
        left = reads.left_above(session)
        if named is not None:
            limits = parse_limits(named)
            check_left(limits, left, "--budget")
            return SpawnBudget(reads, limits, named=True, soft_percent=settings.soft_percent)
        text = None if agent is None else agent.with_keys(AgentBudget).budget
        source = f"agent type {session.agent_type}"
        if text is None and all(budget.id == DAILY for budget in reads.binding(session)):
            text, source = settings.default, "budgets.default"
        if text is None:
            return SpawnBudget(reads)
        wanted = parse_amounts(text)
        limits = lowered(wanted, left)
        return SpawnBudget(
            reads,
            limits,
            soft_percent=settings.soft_percent,
            lowered_from="" if limits == wanted else f"{source} ({wanted})",
        )

    def briefing(self, session: Session) -> str:
        budget = self._reads.find(session.id)
        return "" if budget is None else briefing_line(budget.limits)


class BudgetField(SessionField):
    """The budget of a session, for every door."""

    name = "budget"

    def __init__(self, budgeting: Budgeting) -> None:
        self._budgeting = budgeting

    def ids(self) -> Collection[str]:
        return self._budgeting.subjects()

    def value(self, session_id: str) -> Any:
        status = self._budgeting.status(session_id)
        return None if status is None else budget_view(status)

    def brief(self, session_id: str) -> Any:
        status = self._budgeting.status(session_id)
        if status is None:
            return None
        return {
            "limits": dict(status.budget.limits.items()),
            "left": dict(status.left.items()),
            "state": status.budget.state,
        }

    def spending(self, session: Session) -> str | None:
        """The spending of roots of trees, and of those that have spent most of their budget."""
        status = self._budgeting.status(session.id)
        if status is None or (session.parent_id is not None and status.budget.state is BudgetState.OK):
            return None
        spent = spent_text(status.budget.limits, status.spent)
        return ", ".join(filter(None, (spent, _DIGEST_STATES.get(status.budget.state))))


def price_warnings(
    reads: BudgetReads, session: Session, limits: Amounts, provider: Provider
) -> tuple[str, ...]:
    """A warning if US dollars limit a session whose model has no known price."""
    binds = limits.usd is not None or any(b.limits.usd is not None for b in reads.binding(session))
    if not binds or session.model is None or provider.knows_price(session.model):
        return ()
    return (
        f"the price of model {folded(session.model, 80)} is unknown: its cost does not count, "
        "only limits of tokens and minutes bind it (set its prices in config.yaml)",
    )


class BudgetTimers:
    """Acts at the times of budgets, and when the configuration changes."""

    def __init__(self, settings: BudgetSettings, store: Store, budgets: Budgets) -> None:
        self._settings = settings
        self._store = store
        self._budgets = budgets

    async def begin(self) -> None:
        """Follow the configuration when the daemon starts, if the disk has room."""
        try:
            await self.follow_settings()
        except StorageFull as error:  # a full disk must not keep the daemon from starting
            log.warning("could not apply the configuration of budgets: %s", error.message)

    async def follow_settings(self) -> None:
        """Follow the configuration: the daily budget, and another `on_limit`. Raises StorageFull."""
        budgets = PART.rows_of(self._store.mail.open)
        has_daily = self._settings.daily_usd is not None or DAILY in budgets
        if not has_daily and all(budget.state is not BudgetState.TOLD for budget in budgets.values()):
            return
        async with self._store.transaction() as tx:
            await self._budgets.bind_told(tx)
            if has_daily:
                await self._budgets.begin_day(tx)

    async def day_over(self, timer: Timer) -> float | None:
        """The local day of the daily budget is over."""
        async with self._store.transaction() as tx:
            if tx.timers.take(timer):
                await self._budgets.begin_day(tx)
        return None

    async def minutes_due(self, timer: Timer) -> float | None:
        """The work under way may have used up the minutes of a budget."""
        async with self._store.transaction() as tx:
            if tx.timers.take(timer):
                budget = tx.part(PART).find(timer.subject)
                if budget is not None:
                    tx.part(PART).set_timer(budget)
                    await self._budgets.check(tx, timer.subject)
        return None

    async def grace_over(self, timer: Timer) -> float | None:
        """The time is over in which the agents of a spent budget report."""
        async with self._store.transaction() as tx:
            if tx.timers.take(timer):
                budget = tx.part(PART).find(timer.subject)
                if budget is not None and budget.state is BudgetState.GRACE:
                    await self._budgets.stop(tx, budget)
        return None
