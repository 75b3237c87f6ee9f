"""Decides what happens to the sessions of a spent budget: they report, are stopped, and go on after an approval."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sm.capabilities.budgets.model import Budget, BudgetTimer
from sm.capabilities.budgets.rules import AtLimit
from sm.capabilities.budgets.tables import PART
from sm.capabilities.budgets.text.sentences import (
    ADDED,
    budget_reason,
    report_text,
)
from sm.core.effects import EffectKind
from sm.core.lifecycle import is_live
from sm.core.messages import SM_ITSELF
from sm.core.models import Session
from sm.core.pauses import PauseOrder
from sm.core.states import MessageState
from sm.core.statuses import Status
from sm.state.message_steps import send
from sm.state.pause_orders import end_by_kill, order_pause, order_resume
from sm.store import Transaction
from sm.wire_types.budget import BudgetState

_AT_WORK = frozenset({Status.RUNNING, Status.WAITING_INPUT})


def ask_for_report(
    tx: Transaction, budget: Budget, members: Iterable[Session], grace_s: float
) -> Mapping[str, int]:
    """Ask those at work to report what they have, each once. Return the messages, by session."""
    now = tx.part(PART).find(budget.id) or budget
    text = report_text(budget, grace_s)
    at_work = [s for s in members if s.status in _AT_WORK and not is_stopped(s) and s.id not in now.reports]
    asked = {s.id: send(tx, s.id, SM_ITSELF, text) for s in sorted(at_work, key=lambda s: s.id)}
    if asked:
        tx.part(PART).put(replace(now, reports={**now.reports, **asked}))
    return asked


async def stop_member(tx: Transaction, budget: Budget, member: Session, at_limit: AtLimit) -> None:
    """Kill or pause a session that a spent budget binds."""
    if at_limit.kills:
        if member.exit is None and end_by_kill(tx, member.id) is None:
            reason = budget_reason(budget, tx.find(budget.id))
            payload = {"force": False, "by": SM_ITSELF, "reason": reason}
            await tx.effect(EffectKind.KILL, member.id, payload, tx.now)
    elif is_live(member.status) and not is_stopped(tx.session(member.id)):
        await _pause(tx, budget, tx.session(member.id))


async def _pause(tx: Transaction, budget: Budget, session: Session) -> None:
    before = session.paused
    if before is not None:  # a soft pause of a person only stops now, and does not end with an approval
        order = PauseOrder(before.by, before.reason, before.until, hold=before.hold)
        await order_pause(tx, session, order)
        return
    reason = budget_reason(budget, tx.find(budget.id))
    await order_pause(tx, session, PauseOrder(SM_ITSELF, reason, hold=budget.id))


async def release(tx: Transaction, budget: Budget, by: str) -> None:
    """Resume the sessions that the budget has paused, unless another one stops them too."""
    tx.timers.remove(budget.id, BudgetTimer.STOP)
    for session in sorted(tx.unfinished_sessions(), key=lambda s: (s.created_at, s.id)):
        is_held = session.paused is not None and session.paused.hold == budget.id
        if not is_held and session.id not in budget.reports:
            continue
        other = next((b for b in tx.part(PART).binding(session) if b.stops and b.id != budget.id), None)
        if other is not None:
            if session.paused is not None and is_held and other.state is BudgetState.STOPPED:
                reason = budget_reason(other, tx.find(other.id))
                await tx.update(session, paused=replace(session.paused, hold=other.id, reason=reason))
            elif is_held:
                await _resume(tx, session, by)
            continue
        was_cut_off = session.paused is not None and session.paused.cut_off
        if is_held:
            session = await _resume(tx, session, by)
        if _withdraw_report(tx, budget, session) and not was_cut_off and session.paused is None:
            send(tx, session.id, SM_ITSELF, ADDED)


async def _resume(tx: Transaction, session: Session, by: str) -> Session:
    """End the pause of a session. It stays paused for another cause, such as its paused account."""
    if await tx.keep_paused(session) is not None:
        return tx.session(session.id)
    return await order_resume(tx, session, by)


def _withdraw_report(tx: Transaction, budget: Budget, session: Session) -> bool:
    """Withdraw the order to report if it was not delivered yet. Returns True if the agent has got it."""
    number = budget.reports.get(session.id)
    if number is None or not is_live(session.status):
        return False
    message = tx.mail.open.messages.get(number)
    if message is not None and message.state is MessageState.QUEUED:
        tx.mail.move_message(message, MessageState.EXPIRED, tx.now, reason="withdrawn: the budget was raised")
        return False
    return True


def is_stopped(session: Session) -> bool:
    """True for a paused session, unless a soft pause lets it work on."""
    return session.paused is not None and not session.paused.soft
