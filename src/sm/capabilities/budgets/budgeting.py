"""Shows and changes budgets, and answers requests for more."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from sm.capabilities.budgets.amounts import amount_text
from sm.capabilities.budgets.given_amounts import added, amounts_of, changed_limits, check_left
from sm.capabilities.budgets.model import (
    DAILY,
    UNITS,
    Amounts,
    Budget,
    BudgetStatus,
    Spent,
    above,
)
from sm.capabilities.budgets.operations import CHANGE, CHANGE_DAY, RAISE, SHOW, SHOW_DAY, BudgetChange
from sm.capabilities.budgets.rules import as_much_again, is_spent, only_lowers, share, still_spent
from sm.capabilities.budgets.settings import BudgetSettings
from sm.capabilities.budgets.state.charges import Budgets, priced
from sm.capabilities.budgets.tables import PART
from sm.capabilities.budgets.text import amounts_to_type
from sm.capabilities.budgets.text.sentences import spent_text
from sm.core.dataclass import dataclass
from sm.core.labels import label, name_to_type
from sm.core.lifecycle import is_live
from sm.core.local_times import day_start, local_day
from sm.core.models import Caller, Session, is_pausing
from sm.core.requests import Answer, Request
from sm.errors import IllegalState, NotPermitted, UsageError
from sm.kernel import OperationCall
from sm.operations.hints import Hint, Use
from sm.operations.request_operations import APPROVE, ASK, LIST_REQUESTS
from sm.policy.relations import is_unrestricted, visible
from sm.providers.base import Provider
from sm.providers.prices import price_of
from sm.sessions.authorizer import Authorizer
from sm.store import Store, Transaction
from sm.store.sums import RemovedSums
from sm.wire_types.budget import (
    AmountsView,
    BudgetAboveView,
    BudgetReportView,
    BudgetState,
    BudgetView,
    SpentView,
)

_OF_DAY = "the day"


def budget_view(status: BudgetStatus) -> BudgetView:
    budget = status.budget
    return BudgetView(
        limits=amounts_view(budget.limits),
        spent=_spent(status.spent),
        left=amounts_view(status.left),
        percent=min(int(100 * share(budget.limits, status.spent) + 1e-6), 1_000_000),
        state=budget.state,
        unstopped=status.unstopped,
        state_at=budget.state_at,
        soft_percent=budget.soft_percent,
        unpriced_tokens=status.spent.unpriced,
        request_id=None if budget.request is None else f"r{budget.request}",
    )


def amounts_view(amounts: Amounts) -> AmountsView:
    rounded: dict[str, Any] = {unit: _rounded(unit, amounts.get(unit)) for unit in UNITS}
    return AmountsView(**rounded)


def _spent(spent: Spent) -> SpentView:
    return SpentView(round(spent.usd, 6), spent.tokens, round(spent.get("minutes"), 3))


def _rounded(unit: str, amount: float | None) -> float | None:
    if amount is None or unit == "tokens":
        return amount
    return round(amount, 6 if unit == "usd" else 3)


@dataclass(frozen=True, slots=True, eq=False)
class Budgeting:
    """Use cases of budgets, within the permissions of the caller."""

    _settings: BudgetSettings
    _store: Store
    _authorizer: Authorizer
    _providers: Mapping[str, Provider]
    _budgets: Budgets

    # Reads

    def subjects(self) -> Collection[str]:
        """The subjects that have a budget, as committed."""
        return self._store.part(PART).subjects()

    def status(self, subject: str) -> BudgetStatus | None:
        """The budget of a subject as committed, or None if it has none."""
        budget = self._store.part(PART).find(subject)
        if budget is None:
            return None
        return BudgetStatus(budget, self._store.part(PART).spent_now(budget), self._unstopped(budget))

    def _unstopped(self, budget: Budget) -> int:
        if budget.state is not BudgetState.STOPPED:
            return 0
        live = (s for s in self._store.sessions.values() if is_live(s.status))
        going = (s for s in live if s.paused is None or is_pausing(s))
        return sum(any(b.id == budget.id for b in self._store.part(PART).binding(s)) for s in going)

    async def show(self, call: OperationCall) -> BudgetReportView:
        """Read the budgets that bind a session. Of those above it, the caller gets only the rest."""
        session = self._authorizer.find(call.caller, call.target, SHOW.audience)
        return await self._report(call.caller, session)

    async def show_day(self, call: OperationCall) -> BudgetReportView:
        """Read the daily budget."""
        self._authorizer.require(call.caller, SHOW_DAY.audience, is_read=True)
        return await self._report_of_day()

    async def _unread(self, subject: str) -> Sequence[str]:
        """Warn of tokens that cannot be read: the budget counts too little."""
        own = self._store.part(PART).find(subject)
        if own is None or (own.limits.usd is None and own.limits.tokens is None):
            return ()
        sums, sessions = self._store.sums, self._store.sessions
        since = day_start(local_day(self._store.now())) if subject == DAILY else ""
        unread = {id_ for id_, used in await self._store.usage.since(since) if used.is_unread}
        if subject != DAILY and unread:
            heirs = {removed.id: removed.heir for removed in await sums.removed(unread)}
            found = filter(None, (sessions.get(heirs.get(id_) or id_) for id_ in unread))
            unread = {s.id for s in found if any(each.id == subject for each in above(s, sessions.get))}
        if not unread:
            return ()
        return ("the tokens of some answers cannot be read: more was spent than this budget counts",)

    async def _report_of_day(self, warnings: Sequence[str] = ()) -> BudgetReportView:
        own = self.status(DAILY)
        return BudgetReportView(
            session_id=None,
            label=_OF_DAY,
            budget=None if own is None else budget_view(own),
            above=(),
            warnings=(*warnings, *await self._unread(DAILY)),
        )

    async def _report(
        self, caller: Caller, session: Session, warnings: Sequence[str] = ()
    ) -> BudgetReportView:
        own = self.status(session.id)
        if own is not None and own.spent.unpriced and own.budget.limits.usd is not None:
            tokens = amount_text("tokens", own.spent.unpriced)
            warnings = (*warnings, f"{tokens} tokens of models without a known price do not count in usd")
        warnings = (*warnings, *await self._unread(session.id))
        return BudgetReportView(
            session_id=session.id,
            label=label(session),
            budget=None if own is None else budget_view(own),
            above=[
                self._above(caller, budget)
                for budget in self._store.part(PART).binding(session)
                if budget.id != session.id
            ],
            warnings=warnings,
        )

    def _above(self, caller: Caller, budget: Budget) -> BudgetAboveView:
        """The rest of a budget above. The caller may not see its session."""
        status = BudgetStatus(budget, self._store.part(PART).spent_now(budget))
        session = self._store.sessions.get(budget.id)
        hidden = session is not None and not visible(self._authorizer.principal(caller), session)
        named = _OF_DAY if session is None else "a session above" if hidden else label(session)
        return BudgetAboveView(
            session_id=None if session is None or hidden else session.id,
            label=named,
            left=amounts_view(status.left),
            state=budget.state,
        )

    # Changes

    async def change(self, call: OperationCall) -> BudgetReportView:
        """Set, raise, lower or end the budget of a session.

        A session may only lower its own, and give a descendant at most the rest above. Raises UsageError,
        NotPermitted, and IllegalState for an addition without a budget.
        """
        caller, wanted = call.caller, call.arguments
        session = self._authorizer.find(caller, call.target, CHANGE.audience)
        may_raise = self._authorizer.filter_allowed(caller, RAISE, [session], self._store.sessions.get)
        async with self._store.transaction(caller, call.key) as tx:
            now = tx.session(session.id)
            if tx.replayed is None:
                found = tx.part(PART).find(now.id)
                budget = found or await self._new(tx, now)
                limits = changed_limits(budget.limits if found else Amounts(), wanted, name_to_type(now))
                if found is not None and not may_raise and not only_lowers(found.limits, limits):
                    raise NotPermitted(
                        "a session cannot raise or end its own budget",
                        Hint("ask for more: ", Use(ASK, "QUESTION")),
                    )
                await self._apply(tx, caller, now, budget, limits, wanted)
                tx.remember(now.id)
            warnings = self._warnings(tx, now.id)
        return await self._report(caller, session, warnings)

    async def change_day(self, call: OperationCall) -> BudgetReportView:
        """Change the daily budget until the end of the day. Raises UsageError, and IllegalState without one."""
        caller, wanted = call.caller, call.arguments
        self._authorizer.require(caller, CHANGE_DAY.audience)
        async with self._store.transaction(caller, call.key) as tx:
            if tx.replayed is None:
                budget = tx.part(PART).find(DAILY)
                if budget is None:
                    raise IllegalState("there is no daily budget", "set budgets.daily_usd in config.yaml")
                limits = changed_limits(budget.limits, wanted, DAILY)
                if set(dict(limits.items())) != {"usd"}:
                    raise UsageError(
                        "the daily budget limits usd and nothing else",
                        Hint(Use(CHANGE_DAY, "--set", "usd=20")),
                    )
                await self._budgets.change(tx, budget, limits, str(caller), steps=budget.steps)
                tx.remember(DAILY)
            warnings = self._warnings(tx, DAILY)
        return await self._report_of_day(warnings)

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
            await self._budgets.end(tx, budget, str(caller))
            return
        spent = tx.part(PART).spent_now(budget)
        option, name = "--set" if wanted.add is None else "--add", name_to_type(session)
        self._check_above(
            tx,
            session,
            budget.limits,
            limits,
            spent,
            option,
            lambda most: Hint(Use(CHANGE, name, option, most)),
        )
        steps = limits if wanted.add is None else budget.steps
        await self._budgets.change(tx, budget, limits, str(caller), steps=steps)

    def _check_above(
        self,
        tx: Transaction,
        session: Session,
        before: Amounts,
        limits: Amounts,
        spent: Spent,
        option: str,
        hint_of: Callable[[str], Hint],
    ) -> None:
        """Raise UsageError if a raised limit exceeds the spending plus the rest above.

        `option`: what raises it. `hint_of`: the hint for the largest amount.
        """
        left = tx.part(PART).left_above(session)
        for unit, amount in limits.items():
            known, most = before.get(unit), left.get(unit)
            if most is not None and (known is None or amount > known):
                check_left(
                    Amounts().with_amount(unit, amount),
                    Amounts().with_amount(unit, most + spent.get(unit)),
                    option,
                    hint_of,
                    before=0 if option == "--set" else known or 0,
                )

    async def _new(self, tx: Transaction, session: Session) -> Budget:
        """A budget without limits. It has spent what all sessions that it binds have spent, also the removed ones."""
        bound = [session, *await tx.descendants(session.id, bound=True)]
        members = {s.id: s for s in bound}
        removed = {s.id: s for s in await tx.summed.removed() if s.heir in members}
        usages = await tx.usage.of([*members, *removed])
        spenders: list[Session | RemovedSums] = [*members.values(), *removed.values()]
        spent = Spent()
        for member in spenders:
            spent += Spent(seconds=member.worked_s)
            for used in usages.get(member.id, ()):
                spent += priced(used, price_of(self._providers, member.provider))
        return Budget(session.id, Amounts(), self._settings.soft_percent, spent=spent, state_at=tx.now)

    def _warnings(self, tx: Transaction, subject: str) -> tuple[str, ...]:
        """Warns of a budget that is spent already."""
        budget = tx.part(PART).find(subject)
        if budget is None:
            return ()
        spent = tx.part(PART).spent_now(budget)
        if not is_spent(budget.limits, spent):
            return ()
        return (f"this budget is spent already ({spent_text(budget.limits, spent)}): it binds at once",)

    # Requests

    async def answer(self, tx: Transaction, caller: Caller, request: Request, answer: Answer) -> None:
        """Add to the budget of an approved request. The message has the amounts; without it, as much again.

        Raises UsageError for too little, and for a named amount that is more than is left above, as for every amount
        if a session answers.
        """
        if not answer.approved:
            return
        subject, text = str((request.arguments or {}).get("budget")), answer.message
        budget = tx.part(PART).find(subject)
        if budget is None:
            raise IllegalState(
                f"the budget of request {request.name} no longer exists", Hint(Use(LIST_REQUESTS))
            )
        if subject == DAILY:  # its request opens at any session
            self._authorizer.require(caller, CHANGE_DAY.audience)
        spent = tx.part(PART).spent_now(budget)
        is_named = text is not None and bool(text.strip())
        more = (
            amounts_of(
                text or "",
                request.name,
                Hint(Use(APPROVE, request.name, f"'{amounts_to_type(request.arguments)}'")),
            )
            if is_named
            else as_much_again(budget, spent)
        )
        name = DAILY if subject == DAILY else name_to_type(tx.session(subject))
        limits = added(budget.limits, more, name)
        short = still_spent(limits, spent)
        if short is not None:
            raise UsageError(f"{short}: add more", Hint(Use(APPROVE, request.name)))
        session = tx.find(subject)
        # You may add as much again to budgets below a spent one in any order: the one above binds all the same.
        if session is not None and (is_named or not is_unrestricted(caller)):
            self._check_above(
                tx,
                session,
                budget.limits,
                limits,
                spent,
                f"sm approve {request.name}",
                lambda most: Hint(Use(APPROVE, request.name, f"'{most}'")),
            )
        await self._budgets.change(tx, budget, limits, str(caller), steps=budget.steps)
