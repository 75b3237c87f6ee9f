"""Shows and changes budgets, answers requests for more, and runs their timers."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from sm.config import Config
from sm.core.budget_lines import amount_text, amounts_to_type
from sm.core.budget_wording import spent_text
from sm.core.budgets import (
    DAILY,
    UNITS,
    Amounts,
    Budget,
    BudgetState,
    InvalidAmounts,
    Spent,
    above,
    left_of,
    parse_amounts,
    parse_change,
)
from sm.core.labels import name_to_type
from sm.core.lifecycle import is_live
from sm.core.local_days import day_start, local_day
from sm.core.models import Caller, RequestKey, Session
from sm.core.pause_states import PauseState
from sm.core.requests import Request
from sm.core.text import folded
from sm.core.timers import Timer
from sm.errors import IllegalState, NotPermitted, StorageFull, UsageError
from sm.policy.access import Action, is_unrestricted
from sm.policy.budgets import as_much_again, is_spent, only_lowers, plus, still_spent
from sm.sessions.budget_plan import check_left
from sm.sessions.manager import Manager
from sm.store import Store, Transaction
from sm.store.sums import RemovedSums

log = logging.getLogger(__name__)

_EXAMPLE = "sm budget SESSION --set usd=5,tokens=2M,minutes=90"


@dataclass(frozen=True, slots=True)
class BudgetChange:
    """Texts of a caller: the limits to set, or the amounts to add. Exactly one of them."""

    set: str | None = None
    add: str | None = None


@dataclass(frozen=True, slots=True)
class BudgetStatus:
    """A budget with what was spent until now."""

    budget: Budget
    spent: Spent
    unstopped: int = 0
    """Sessions of a stopped budget that were not seen to have stopped yet."""

    @property
    def left(self) -> Amounts:
        return left_of(self.budget, self.spent)


@dataclass(frozen=True, slots=True)
class BudgetReport:
    """The budget of a session, and those above it, nearest first."""

    session: Session | None
    """None: the daily budget."""
    own: BudgetStatus | None
    above: Sequence[BudgetStatus] = ()
    warnings: Sequence[str] = ()


class Budgeting:
    """Use cases of budgets, within the permissions of the caller."""

    def __init__(self, config: Config, store: Store, manager: Manager) -> None:
        self._settings = config.budgets
        self._store = store
        self._manager = manager

    # Reads

    def has(self, subject: str) -> bool:
        """True if the subject has a budget, as committed."""
        return self._store.budgets.find(subject) is not None

    def status(self, subject: str) -> BudgetStatus | None:
        """The budget of a subject as committed; None: it has none."""
        budget = self._store.budgets.find(subject)
        if budget is None:
            return None
        return BudgetStatus(budget, self._store.budgets.spent_now(budget), self._unstopped(budget))

    def _unstopped(self, budget: Budget) -> int:
        if budget.state is not BudgetState.STOPPED:
            return 0
        live = (s for s in self._store.sessions.values() if is_live(s.status))
        going = (s for s in live if s.paused is None or s.paused.state is PauseState.PAUSING)
        return sum(any(b.id == budget.id for b in self._store.budgets.binding(s)) for s in going)

    async def report(self, caller: Caller, reference: str) -> BudgetReport:
        """Read the budgets that bind a session. Of those above it, the caller gets only the rest."""
        return await self._report(self._manager.find(caller, reference, Action.LOWER_BUDGET))

    async def report_of_day(self, caller: Caller) -> BudgetReport:
        """Read the daily budget."""
        self._manager.require(caller, Action.MANAGE_DAILY_BUDGET, is_read=True)
        return BudgetReport(None, self.status(DAILY), warnings=await self._unread(DAILY))

    async def _unread(self, subject: str) -> Sequence[str]:
        """Warn of tokens that cannot be read: the budget counts too little."""
        own = self._store.budgets.find(subject)
        if own is None or (own.limits.usd is None and own.limits.tokens is None):
            return ()
        sums, sessions = self._store.sums, self._store.sessions
        unread = await sums.unread_since(
            day_start(local_day(self._manager.now())) if subject == DAILY else ""
        )
        if subject != DAILY and unread:
            heirs = {removed.id: removed.heir for removed in await sums.removed(unread)}
            found = filter(None, (sessions.get(heirs.get(id_) or id_) for id_ in unread))
            unread = [s.id for s in found if any(each.id == subject for each in above(s, sessions.get))]
        if not unread:
            return ()
        return ("the tokens of some answers cannot be read: more was spent than this budget counts",)

    async def _report(self, session: Session, warnings: Sequence[str] = ()) -> BudgetReport:
        reads = self._store.budgets
        above = [
            BudgetStatus(budget, reads.spent_now(budget))
            for budget in reads.binding(session)
            if budget.id != session.id
        ]
        own = self.status(session.id)
        if own is not None and own.spent.unpriced and own.budget.limits.usd is not None:
            tokens = amount_text("tokens", own.spent.unpriced)
            warnings = (*warnings, f"{tokens} tokens of models without a known price do not count in usd")
        warnings = (*warnings, *await self._unread(session.id))
        return BudgetReport(session, own, above, warnings)

    # Changes

    async def change(
        self, caller: Caller, reference: str, wanted: BudgetChange, key: RequestKey | None
    ) -> BudgetReport:
        """Set, raise, lower or end the budget of a session.

        A session may only lower its own, and give a descendant at most the rest above. Raises UsageError,
        NotPermitted, and IllegalState for an addition without a budget.
        """
        session = self._manager.find(caller, reference, Action.LOWER_BUDGET)
        may_raise = self._manager.filter_allowed(caller, Action.RAISE_BUDGET, [session], self._manager.tree)
        async with self._store.transaction(caller, key) as tx:
            now = tx.session(session.id)
            if tx.replayed is None:
                found = tx.budgets.find(now.id)
                budget = found or await self._new(tx, now)
                limits = _changed_limits(budget.limits if found else Amounts(), wanted, name_to_type(now))
                if found is not None and not may_raise and not only_lowers(found.limits, limits):
                    raise NotPermitted(
                        "a session cannot raise or end its own budget", "ask for more: sm ask QUESTION"
                    )
                await self._apply(tx, caller, now, budget, limits, wanted)
                tx.remember(now.id)
            warnings = self._warnings(tx, now.id)
        return await self._report(session, warnings)

    async def change_of_day(
        self, caller: Caller, wanted: BudgetChange, key: RequestKey | None
    ) -> BudgetReport:
        """Change the daily budget until the end of the day. Raises UsageError, and IllegalState without one."""
        self._manager.require(caller, Action.MANAGE_DAILY_BUDGET)
        async with self._store.transaction(caller, key) as tx:
            if tx.replayed is None:
                budget = tx.budgets.find(DAILY)
                if budget is None:
                    raise IllegalState("there is no daily budget", "set budgets.daily_usd in config.yaml")
                limits = _changed_limits(budget.limits, wanted, DAILY)
                if set(dict(limits.items())) != {"usd"}:
                    raise UsageError(
                        "the daily budget limits usd and nothing else", "sm budget daily --set usd=20"
                    )
                await self._manager.budgets.change(tx, budget, limits, str(caller), steps=budget.steps)
                tx.remember(DAILY)
            warnings = self._warnings(tx, DAILY)
        return BudgetReport(None, self.status(DAILY), (), (*warnings, *await self._unread(DAILY)))

    async def _apply(
        self,
        tx: Transaction,
        caller: Caller,
        session: Session,
        budget: Budget,
        limits: Amounts,
        wanted: BudgetChange,
    ) -> None:
        if not limits:
            await self._manager.budgets.end(tx, budget, str(caller))
            return
        spent = tx.budgets.spent_now(budget)
        option, name = "--set" if wanted.add is None else "--add", name_to_type(session)
        self._check_above(
            tx, session, budget.limits, limits, spent, option, f"sm budget {name} {option} {{}}"
        )
        steps = limits if wanted.add is None else budget.steps
        await self._manager.budgets.change(tx, budget, limits, str(caller), steps=steps)

    def _check_above(
        self,
        tx: Transaction,
        session: Session,
        before: Amounts,
        limits: Amounts,
        spent: Spent,
        option: str,
        command: str,
    ) -> None:
        """Raise UsageError if a raised limit exceeds the spending plus the rest above.

        `option`: what raises it. `command`: for the hint, with `{}` for the largest amount.
        """
        left = tx.budgets.left_above(session)
        for unit, amount in limits.items():
            known, most = before.get(unit), left.get(unit)
            if most is not None and (known is None or amount > known):
                check_left(
                    Amounts().with_amount(unit, amount),
                    Amounts().with_amount(unit, most + spent.get(unit)),
                    option,
                    command,
                    before=0 if option == "--set" else known or 0,
                )

    async def _new(self, tx: Transaction, session: Session) -> Budget:
        """A budget without limits. It has spent what all sessions that it binds have spent, also the removed ones."""
        sessions = {s.id: s for s in tx.all_sessions()}
        members = {
            s.id: s for s in sessions.values() if any(a.id == session.id for a in above(s, sessions.get))
        }
        removed = {s.id: s for s in await tx.summed.removed() if s.heir in members}
        usages = {**await tx.measured.usage_of(members), **await tx.summed.removed_usage(removed)}
        spenders: list[Session | RemovedSums] = [*members.values(), *removed.values()]
        spent = Spent()
        for member in spenders:
            spent += Spent(seconds=member.worked_s)
            for used in usages.get(member.id, ()):
                cost = self._manager.cost_usd(member, used)
                spent += Spent(
                    cost or 0.0, used.input + used.output, 0.0, used.context if cost is None else 0
                )
        return Budget(session.id, Amounts(), self._settings.soft_percent, spent=spent, state_at=tx.now)

    def _warnings(self, tx: Transaction, subject: str) -> tuple[str, ...]:
        """Warns of a budget that is spent already."""
        budget = tx.budgets.find(subject)
        if budget is None:
            return ()
        spent = tx.budgets.spent_now(budget)
        if not is_spent(budget.limits, spent):
            return ()
        return (f"this budget is spent already ({spent_text(budget.limits, spent)}): it binds at once",)

    # Requests

    async def answer(self, tx: Transaction, caller: Caller, request: Request, text: str | None) -> None:
        """Add to the budget of an approved request. `text`: the amounts; None: those of the request.

        Raises UsageError for too little, and for a named amount that is more than is left above, as for every amount
        if a session answers.
        """
        subject = str((request.arguments or {}).get("budget"))
        budget = tx.budgets.find(subject)
        if budget is None:
            raise IllegalState(f"the budget of request {request.name} no longer exists", "sm requests")
        if subject == DAILY:  # its request opens at any session
            self._manager.require(caller, Action.MANAGE_DAILY_BUDGET)
        spent = tx.budgets.spent_now(budget)
        is_named = text is not None and bool(text.strip())
        more = (
            _amounts(
                text or "", request.name, f"sm approve {request.name} '{amounts_to_type(request.arguments)}'"
            )
            if is_named
            else as_much_again(budget, spent)
        )
        name = DAILY if subject == DAILY else name_to_type(tx.session(subject))
        limits = _added(budget.limits, more, name)
        short = still_spent(limits, spent)
        if short is not None:
            raise UsageError(f"{short}: add more", f"sm approve {request.name}")
        session = tx.find(subject)
        # You may add as much again to budgets below a spent one in any order: the one above binds all the same.
        if session is not None and (is_named or not is_unrestricted(caller)):
            option = f"sm approve {request.name}"
            self._check_above(tx, session, budget.limits, limits, spent, option, f"{option} '{{}}'")
        await self._manager.budgets.change(tx, budget, limits, str(caller), steps=budget.steps)

    # Timers

    async def begin(self) -> None:
        """Follow the configuration when the daemon starts, if the disk has room."""
        try:
            await self.follow_settings()
        except StorageFull as error:  # a full disk must not keep the daemon from starting
            log.warning("could not apply the configuration of budgets: %s", error.message)

    async def follow_settings(self) -> None:
        """Follow the configuration: the daily budget, and another `on_limit`. Raises StorageFull."""
        budgets = self._store.mail.open.budgets
        has_daily = self._settings.daily_usd is not None or DAILY in budgets
        if not has_daily and all(budget.state is not BudgetState.TOLD for budget in budgets.values()):
            return
        async with self._store.transaction() as tx:
            await self._manager.budgets.bind_told(tx)
            if has_daily:
                await self._manager.budgets.begin_day(tx)

    async def day_over(self, timer: Timer) -> float | None:
        """The local day of the daily budget is over."""
        async with self._store.transaction() as tx:
            if tx.timers.take(timer):
                await self._manager.budgets.begin_day(tx)
        return None

    async def minutes_due(self, timer: Timer) -> float | None:
        """The work under way may have used up the minutes of a budget."""
        async with self._store.transaction() as tx:
            if tx.timers.take(timer):
                budget = tx.budgets.find(timer.subject)
                if budget is not None:
                    tx.budgets.set_timer(budget)
                    await self._manager.budgets.check(tx, timer.subject)
        return None

    async def grace_over(self, timer: Timer) -> float | None:
        """The time is over in which the agents of a spent budget report."""
        async with self._store.transaction() as tx:
            if tx.timers.take(timer):
                budget = tx.budgets.find(timer.subject)
                if budget is not None and budget.state is BudgetState.GRACE:
                    await self._manager.budgets.stop(tx, budget)
        return None


def _changed_limits(before: Amounts, wanted: BudgetChange, name: str) -> Amounts:
    """The limits after a change; empty: no budget. Raises UsageError and IllegalState."""
    if (wanted.set is None) == (wanted.add is None):
        raise UsageError("a change of a budget has either limits to set or amounts to add", _EXAMPLE)
    if wanted.add is not None:
        more = _amounts(wanted.add, "--add", f"sm budget {name} --add usd=2")
        if not before:
            raise IllegalState(f"session {name} has no budget", f"sm budget {name} --set {more}")
        return _added(before, more, name)
    try:
        given, removed = parse_change(wanted.set or "")
    except InvalidAmounts as error:
        raise UsageError(f"invalid value for --set: {folded(str(error), 200)}", _EXAMPLE) from None
    limits = before
    for unit in UNITS:
        if unit in removed:
            limits = limits.with_amount(unit, None)
        elif given.get(unit) is not None:
            limits = limits.with_amount(unit, given.get(unit))
    return limits


def _added(limits: Amounts, more: Amounts, name: str) -> Amounts:
    """Raises UsageError for a unit without a limit, and for a limit that becomes too large."""
    for unit, amount in more.items():
        if limits.get(unit) is None:
            known = ", ".join(unit for unit, _ in limits.items())
            raise UsageError(
                f"the budget has no limit of {unit} to add {amount_text(unit, amount)} to, only {known}",
                f"set one: sm budget {name} --set {unit}={amount_text(unit, amount)}",
            )
    total = plus(limits, more)
    try:
        parse_amounts(str(total))
    except InvalidAmounts as error:
        raise UsageError(f"the sum is too large: {folded(str(error), 200)}") from None
    return total


def _amounts(text: str, where: str, hint: str) -> Amounts:
    try:
        return parse_amounts(text)
    except InvalidAmounts as error:
        raise UsageError(f"invalid amount for {where}: {folded(str(error), 200)}", hint) from None
