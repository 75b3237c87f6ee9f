"""Moves sessions from one status to the next. No other code changes a status."""

import logging
from typing import Any

from sm.core.effects import EffectKind
from sm.core.lifecycle import decide, is_ended
from sm.core.models import Process, Session, Signal
from sm.core.states import EventType
from sm.core.statuses import Status
from sm.core.wording import move_event, subject
from sm.state import next_process
from sm.state.message_steps import pass_on_notices
from sm.state.notices import Notices, has_ended_alive, notice_recipient
from sm.state.turns import end_turns, turn_ended
from sm.store import Open, Transaction

log = logging.getLogger(__name__)


async def move(tx: Transaction, notices: Notices, session_id: str, signal: Signal, **facts: Any) -> Session:
    """Apply `lifecycle.decide` to the session. Records `facts` even when the status does not change."""
    before = tx.session(session_id)
    decision = decide(before.status, signal)
    context = {"sm_session": session_id, "sm_signal": signal.kind.value, "sm_from": before.status.value}
    if decision is None:
        log.debug("ignored a signal without effect", extra=context)
        return await tx.update(before, **facts)
    if decision.after is Status.ERROR and signal.message is None:
        facts["completion_message"] = signal.reason
    if is_ended(decision.after) != is_ended(decision.before):
        facts["told_operator"] = is_ended(decision.after) and notice_recipient(tx, before) is None
    turn = signal.turn if decision.after is Status.IDLE else None
    if turn is not None:
        facts["turn_ended_at"] = turn.ended_at
    after = await tx.apply(before, decision, **facts)
    for follower in tx.followers:
        after = await follower.settle_status(tx, before.status, after)
    after = await next_process.after_move(tx, after)
    for follower in tx.followers:
        await follower.follow_status(tx, after)
    if is_ended(after.status):
        end_turns(tx, after)
    log.info("changed a session's status", extra={**context, "sm_to": after.status.value})
    if turn is not None:
        after = await turn_ended(tx, after, turn)
    await notices.add_for_move(tx, after, decision)
    if has_ended_alive(after) and not is_ended(decision.before):
        await pass_on_notices(tx, notices, after)
    if decision.event is not None:
        metadata: dict[str, Any] = {"source": signal.source, "reason": signal.reason}
        if is_ended(decision.after) and not is_ended(decision.before):
            metadata["status_before"] = decision.before.value
        if signal.exit is not None:
            metadata |= {"exit_code": signal.exit.code, "exit_signal": signal.exit.signal}
        if signal.message is not None:
            metadata["completion_message"] = signal.message
        line = move_event(before, signal, decision.event)
        await tx.event(decision.event, after, signal.emitted_at, line, metadata)
    return after


async def set_archived(tx: Transaction, session: Session, *, archived: bool) -> Session:
    """Hide the session from lists, or show it again."""
    after = await tx.update(session, archived=archived)
    line = f"{subject(after)} {'archived' if archived else 'unarchived'}"
    await tx.event(EventType.ARCHIVED, after, tx.now, line, {"archived": archived})
    return after


def is_process_of(session: Session, process: Process | None, open: Open) -> bool:
    """True for the session's process until its end is recorded. A restored session has another process than before.

    `process` is None for a process that ended before its id was known.
    """
    if session.exit is not None or session.process != process:
        return False
    # Both are None because a session that is being started has no process yet, so it cannot have lost one.
    starting = any(e.kind == EffectKind.START and e.session_id == session.id for e in open.effects.values())
    return process is not None or not starting


def is_end_ordered(session_id: str, open: Open) -> bool:
    """Return True while sm ends the process of a session, for a kill or a pause."""
    return any(e.kind == EffectKind.KILL and e.session_id == session_id for e in open.effects.values())
