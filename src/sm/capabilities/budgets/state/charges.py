"""Charges budgets, and carries out what follows. Functions of a transaction; `capabilities.budgets.rules` decides."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sm.capabilities.budgets.model import DAILY, Amounts, Budget, BudgetTimer, Spent
from sm.capabilities.budgets.rules import (
    AT_LIMIT,
    AtLimit,
    BudgetStep,
    as_much_again,
    is_far_spent,
    is_spent,
    next_step,
    only_lowers,
)
from sm.capabilities.budgets.settings import BudgetSettings
from sm.capabilities.budgets.state.stops import ask_for_report, release, stop_member
from sm.capabilities.budgets.tables import PART, BudgetReads
from sm.capabilities.budgets.text.sentences import (
    ended_text,
    limit_text,
    raised_text,
    request_arguments,
    soft_text,
)
from sm.core.labels import short_label
from sm.core.lifecycle import is_live
from sm.core.local_times import day_after, day_start, local_day
from sm.core.messages import SM_ITSELF
from sm.core.models import Session, ancestors
from sm.core.states import EventType, MessageState, NoticeKind, RequestKind, RequestState
from sm.core.timers import Timer
from sm.core.timestamps import later
from sm.core.tree_totals import Price
from sm.core.usage import Usage
from sm.providers.base import Provider
from sm.state.followers import UsageFollower
from sm.state.message_steps import send
from sm.state.notices import Notices, notice_recipient
from sm.state.request_steps import NewRequest, finish_request, open_of, open_request
from sm.store import Transaction
from sm.store.transaction import SessionFollower
from sm.wire_types.budget import BudgetState


def added_spending(
    stored: Mapping[str, Usage],
    usages: Iterable[Usage],
    price: Price,
) -> Spent:
    """The spending that `usages` add to the stored ones. As in the database, the larger output of a message counts.

    Spending never shrinks, also if a transcript is written anew with less usage.
    """
    known, total = dict(stored), Spent()
    for used in usages:
        before = known.get(used.message_id)
        if before is not None and not used.replaces(before):
            continue
        known[used.message_id] = used
        added = priced(used, price)
        total += added if before is None else added.beyond(priced(before, price))
    return total


def priced(used: Usage, price: Price) -> Spent:
    """The spending of one message, or of the sum of messages with one model."""
    cost = price([used])
    tokens = used.input + used.output
    if cost is None:
        return Spent(tokens=tokens, unpriced=used.context)
    return Spent(usd=cost, tokens=tokens)


class Budgets(SessionFollower, UsageFollower):
    """Charges the budgets, and stops the sessions of those that are spent."""

    def __init__(
        self,
        settings: BudgetSettings,
        reads: BudgetReads,
        notices: Notices,
        providers: Mapping[str, Provider],
    ) -> None:
        self._reads = reads
        self._settings = settings
        self._notices = notices
        self._providers = providers

    @property
    def _at_limit(self) -> AtLimit:
        return AT_LIMIT[self._settings.on_limit]

    # Charges

    def needs_stored(self, session_id: str) -> bool:
        return bool(self._reads.binding_id(session_id))

    async def follow_usage(
        self,
        tx: Transaction,
        session: Session,
        usages: Sequence[Usage],
        stored: Mapping[str, Usage] | None = None,
    ) -> None:
        """Charge usage that the transaction is about to store: for each message, the difference to the stored one."""
        if not usages or not (bound := tx.part(PART).binding(session)):
            return
        if stored is None:
            ids = {used.message_id for used in usages}
            stored = await tx.usage.of_messages(session.id, ids)
        spent = added_spending(stored, usages, self._providers[session.provider].cost_usd)
        for budget in tx.part(PART).charge(bound, spent):
            if self._next_step(budget, tx.part(PART).spent_now(budget)) is not BudgetStep.NONE:
                await self.check(tx, budget.id, session)

    async def check(self, tx: Transaction, subject: str, by: Session | None = None) -> None:
        """Carry out the next step for a budget. `by`: the session that has spent."""
        budget = tx.part(PART).find(subject)
        if budget is None:
            return
        spent = tx.part(PART).spent_now(budget)
        match self._next_step(budget, spent):
            case BudgetStep.SOFT:
                await self._warn(tx, budget, spent, by)
            case BudgetStep.LIMIT:
                await self._reach(tx, budget, spent, by)
            case BudgetStep.HARD:
                tx.timers.remove(budget.id, BudgetTimer.STOP)
                await self.stop(tx, budget, by)
            case BudgetStep.NONE:
                pass

    def _next_step(self, budget: Budget, spent: Spent) -> BudgetStep:
        return next_step(budget, spent, self._settings.hard_percent)

    async def _warn(self, tx: Transaction, budget: Budget, spent: Spent, by: Session | None) -> None:
        after = self._move(tx, budget, BudgetState.SOFT)
        owner = self._owner(tx, budget, by)
        if owner is None:
            return
        text = soft_text(after, spent, owner)
        await self._tell(tx, after, spent, owner, text)
        if budget.id != DAILY and _takes_messages(owner):
            send(tx, owner.id, SM_ITSELF, soft_text(after, spent, None))

    async def _reach(self, tx: Transaction, budget: Budget, spent: Spent, by: Session | None) -> None:
        """Tell everybody concerned, and ask the agents at work to report what they have."""
        owner = self._owner(tx, budget, by)
        if not self._at_limit.stops:
            after = self._move(tx, budget, BudgetState.TOLD)
            if owner is not None:
                await self._tell(tx, after, spent, owner, limit_text(after, spent, owner, None))
                if budget.id != DAILY and _takes_messages(owner):
                    send(tx, owner.id, SM_ITSELF, limit_text(after, spent, None, None))
            return
        grace_s = self._settings.grace_s
        after = self._move(tx, budget, BudgetState.GRACE, reports={})
        at_work = ask_for_report(tx, after, tx.part(PART).members(budget.id), grace_s)
        if owner is not None:
            on_limit = self._settings.on_limit
            text = limit_text(after, spent, owner, on_limit, at_work=bool(at_work))
            await self._tell(tx, after, spent, owner, text)
        is_far_spent_now = is_far_spent(after.limits, spent, self._settings.hard_percent)
        if at_work and grace_s > 0 and not is_far_spent_now:
            due_at = later(tx.now, grace_s)
            tx.timers.set(Timer(budget.id, BudgetTimer.STOP, due_at, grace_s))
        else:
            await self.stop(tx, tx.part(PART).find(budget.id) or after, by)

    async def stop(self, tx: Transaction, budget: Budget, by: Session | None = None) -> None:
        """Pause or kill the sessions of a spent budget, and ask for more of it."""
        for message_id in budget.reports.values():
            message = tx.mail.open.messages.get(message_id)
            if message is not None and message.state is MessageState.QUEUED:
                tx.mail.move_message(
                    message, MessageState.EXPIRED, tx.now, reason="the session was stopped before"
                )
        owner = self._owner(tx, budget, by)
        after = self._move(tx, budget, BudgetState.STOPPED)
        for member in sorted(tx.part(PART).members(budget.id), key=lambda s: (s.created_at, s.id)):
            await stop_member(tx, budget, member, self._at_limit)
        if owner is not None and self._at_limit.asks:
            await self._ask(tx, after.id, owner)

    async def follow_move(self, tx: Transaction, before: Session, after: Session) -> None:
        """Let a spent budget above its new parent stop a session and those below it.

        Also closes the request for a budget that binds no live session any more.
        """
        left = {budget.id for budget in tx.part(PART).binding(before)}
        left -= {budget.id for budget in tx.part(PART).binding(after)}
        for subject in sorted(left):
            budget = tx.part(PART).find(subject)
            if budget is not None and not any(is_live(s.status) for s in tx.part(PART).members(subject)):
                await self._cancel_request(tx, budget, f"{short_label(after)} was moved")
        for member in sorted(tx.part(PART).members(after.id), key=lambda s: (s.created_at, s.id)):
            for budget in tx.part(PART).binding(member):
                if budget.state is BudgetState.STOPPED:
                    await stop_member(tx, budget, member, self._at_limit)
                elif budget.state is BudgetState.GRACE:
                    ask_for_report(tx, budget, [tx.session(member.id)], self._settings.grace_s)

    async def leave(self, tx: Transaction, session: Session) -> None:
        """Close the requests for more at a session that is about to be removed, or open them at another session."""
        for request in open_of(tx.mail.open.requests, session.id, [RequestKind.BUDGET]):
            budget = tx.part(PART).find(str((request.arguments or {}).get("budget")))
            reason = f"session {short_label(session)} was removed"
            await finish_request(tx, session, request, tx.now, state=RequestState.CANCELLED, reason=reason)
            if budget is None or budget.id == session.id or budget.request != request.id:
                continue
            owner = self._owner(tx, budget, None)
            if owner is not None and budget.state is BudgetState.STOPPED:
                await self._ask(tx, budget.id, owner)

    async def _ask(self, tx: Transaction, subject: str, owner: Session) -> None:
        budget = tx.part(PART).find(subject)  # the pauses have charged it
        if budget is None:
            return
        spent = tx.part(PART).spent_now(budget)
        more = as_much_again(budget, spent)
        asked = NewRequest(
            RequestKind.BUDGET, arguments=request_arguments(budget, spent, more, tx.find(budget.id))
        )
        request = await open_request(tx, self._notices, owner, asked, tx.now, None)
        tx.part(PART).put(replace(budget, request=request.id))

    def _move(self, tx: Transaction, budget: Budget, state: BudgetState, **changes: Any) -> Budget:
        now = tx.part(PART).find(budget.id) or budget
        after = replace(now, state=state, state_at=tx.now, **changes)
        tx.part(PART).put(after)
        return after

    def _owner(self, tx: Transaction, budget: Budget, by: Session | None) -> Session | None:
        """The session at which events and requests of the budget appear. Of the daily one: the top of `by`."""
        if budget.id != DAILY:
            return tx.find(budget.id)
        if by is None:
            members = sorted(
                tx.part(PART).members(DAILY), key=lambda s: (s.working_since is None, s.created_at, s.id)
            )
            by = next(iter(members), None)
        return None if by is None else next(reversed([by, *ancestors(by, tx.find)]))

    async def _tell(self, tx: Transaction, budget: Budget, spent: Spent, owner: Session, text: str) -> None:
        """Write the event of the budget's state, and notices for the parent and the operator."""
        await self._record(tx, budget, spent, owner, text)
        occasion = f"budget:{budget.id}:{budget.state}:{budget.state_at}"
        recipient = None if budget.id == DAILY else notice_recipient(tx, owner)
        if recipient is not None:
            kind = NoticeKind.BUDGET
            await self._notices.add(tx, owner, recipient, kind, f"{occasion}/{recipient}", text, None)
        await self._notices.add(tx, owner, None, NoticeKind.BUDGET, occasion, text, EventType.BUDGET)

    async def _record(
        self,
        tx: Transaction,
        budget: Budget,
        spent: Spent,
        owner: Session,
        text: str,
        *,
        is_over: bool = False,
    ) -> None:
        metadata = {
            "subject": budget.id,
            "state": "ended" if is_over else budget.state.value,
            "limits": dict(budget.limits.items()),
            "spent": {unit: round(spent.get(unit), 6) for unit, _ in budget.limits.items()},
        }
        await tx.event(EventType.BUDGET, owner, tx.now, text, metadata)

    # Changes

    async def change(
        self, tx: Transaction, budget: Budget, limits: Amounts, by: str, *, steps: Amounts | None = None
    ) -> Budget:
        """Give a budget other limits. If they exceed the spending, its sessions go on; else it binds immediately."""
        now = tx.part(PART).find(budget.id) or budget
        after = replace(now, limits=limits, steps=limits if steps is None else steps)
        spent = tx.part(PART).spent_now(after)
        owner = self._owner(tx, after, None)
        if after == now:
            return now
        if now.stops and is_spent(limits, spent):
            tx.part(PART).put(after)
            if owner is not None:
                await self._record(tx, after, spent, owner, raised_text(after, spent, owner, by))
            request = tx.part(PART).open_request(now)
            if request is not None:
                more = as_much_again(after, spent)
                arguments = request_arguments(after, spent, more, tx.find(budget.id))
                tx.mail.change_request(request, arguments=arguments)
        else:
            await self._cancel_request(tx, now, _changed_by(by))
            # An agent that lowers its budget is not told again and again that most of it is spent.
            keeps = not now.stops and only_lowers(now.limits, limits)
            state = now.state if keeps else BudgetState.OK
            after = replace(after, state=state, state_at=tx.now, request=None, reports={})
            tx.part(PART).put(after)
            if owner is not None:
                await self._record(tx, after, spent, owner, raised_text(after, spent, owner, by))
            if now.stops:
                await release(tx, now, by)
            await self.check(tx, after.id, owner)
        return tx.part(PART).find(after.id) or after

    async def bind_told(self, tx: Transaction) -> None:
        """Let budgets bind that were only reported as spent, if `on_limit` has changed since."""
        if not self._at_limit.stops:
            return
        for budget in list(tx.part(PART).rows.values()):
            if budget.state is BudgetState.TOLD:
                tx.part(PART).put(replace(budget, state=BudgetState.SOFT, state_at=tx.now))
                await self.check(tx, budget.id)

    async def begin_day(self, tx: Transaction) -> None:
        """Begin the budget of the local day, if there is to be one and the day is new. Its sessions go on."""
        limit, budget, day = self._settings.daily_usd, tx.part(PART).find(DAILY), local_day(tx.now)
        if limit is None:
            tx.timers.remove(DAILY, BudgetTimer.DAY)
            if budget is not None:
                await self.end(tx, budget, SM_ITSELF)
            return
        limits, known = Amounts(usd=limit), None if budget is None else budget.day
        if budget is None or known is None or not day <= known <= day_after(day):
            # A clock that is set back over midnight and forth again must not begin the same day twice.
            spent = await self._spent_since(tx, day_start(day))
            fresh = Budget(
                DAILY, limits, self._settings.soft_percent, limits, spent, state_at=tx.now, day=day
            )
            if budget is not None:
                await self._cancel_request(tx, budget, _changed_by(SM_ITSELF))
            tx.part(PART).put(fresh)
            if budget is not None and budget.stops:
                await release(tx, budget, SM_ITSELF)
            await self.check(tx, DAILY)
        elif budget.steps != limits:  # the configuration has changed
            await self.change(tx, budget, limits, SM_ITSELF)
        timer = Timer(DAILY, BudgetTimer.DAY, day_start(day_after(day)))
        if tx.timers.find(DAILY, BudgetTimer.DAY) != timer:
            tx.timers.set(timer)

    async def _spent_since(self, tx: Transaction, at: str) -> Spent:
        """The cost of the usage of all sessions since that time, with the removed ones."""
        spent = Spent()
        removed = {session.id: session for session in await tx.summed.removed()}
        for session_id, used in await tx.usage.since(at):
            session = tx.find(session_id) or removed.get(session_id)
            provider = None if session is None else self._providers.get(session.provider)
            if provider is not None:
                spent += priced(used, provider.cost_usd)
        return spent

    async def end(self, tx: Transaction, budget: Budget, by: str) -> None:
        """Remove a budget. Its sessions go on."""
        owner, spent = self._owner(tx, budget, None), tx.part(PART).spent_now(budget)
        await self._cancel_request(tx, budget, _changed_by(by))
        tx.part(PART).remove(budget.id)
        if owner is not None:
            await self._record(tx, budget, spent, owner, ended_text(budget, spent, owner, by), is_over=True)
        if budget.stops:
            await release(tx, budget, by)

    async def _cancel_request(self, tx: Transaction, budget: Budget, reason: str) -> bool:
        """Cancel the open request for more. Returns False if there is none."""
        request = tx.part(PART).open_request(budget)
        session = None if request is None else tx.find(request.session_id)
        if request is None or session is None:
            return False
        await finish_request(tx, session, request, tx.now, state=RequestState.CANCELLED, reason=reason)
        return True


def _changed_by(by: str) -> str:
    return f"the budget was changed by {by}"


def _takes_messages(session: Session) -> bool:
    return session.exit is None and session.process is not None
