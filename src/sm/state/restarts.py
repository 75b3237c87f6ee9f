"""Plans the restart of a session whose process has crashed. Functions of a transaction.

Until the restart is due, the session has the status starting and no process, so it is live: its children and its
messages wait for it.
"""

from dataclasses import replace

from sm.core.lifecycle import is_ended
from sm.core.models import Exit, Session, Signal
from sm.core.restarts import RESTART
from sm.core.states import EventType, SignalKind
from sm.core.timers import Timer, TimerKind
from sm.core.timestamps import later
from sm.core.warnings import WarningKind
from sm.core.wording import subject
from sm.policy.restarts import Restart
from sm.state.messages import keep_messages
from sm.state.notices import Notices
from sm.state.requests import cancel_questions
from sm.state.retries import end_row
from sm.state.warning_rows import open_row
from sm.store import Transaction


def why_ended(crash: Signal) -> str:
    """`exit code 3`, or what is known in place of the exit."""
    if crash.cause is not None or crash.exit in (None, Exit()):
        return crash.cause or crash.reason
    return str(crash.exit)


def crash_signal(crash: Signal, restart: Restart) -> Signal:
    """The signal for `move`: the session waits for its restart. `crash`: how its process ended."""
    reason = f"{restart.words} in {restart.after_s:g} s ({why_ended(crash)})"
    return Signal(SignalKind.RESTART_PLANNED, RESTART, reason, crash.emitted_at, crash.exit)


async def plan_restart(
    tx: Transaction,
    notices: Notices,
    before: Session,
    session: Session,
    restart: Restart,
    why: str,
    *,
    words: str | None = None,
) -> None:
    """Set the timer of the restart. `before`: the session with its process; `session`: after the crash.

    `why`: how the process ended, for its agent. `words`: what the restart is, if it follows no crash.
    """
    await keep_messages(tx, notices, session)
    await cancel_questions(tx, session, tx.now, "the process has ended")
    end_row(tx, session.id)
    process = before.process
    data = {
        "process": None if process is None else {"pid": process.pid, "started": process.started},
        "began": before.started_at,
        "words": words or restart.words,
        "why": why,
    }
    due_at = later(tx.now, restart.after_s)
    tx.timers.set(Timer(session.id, TimerKind.RESTART, due_at, restart.after_s, data))
    if words is None:
        await _warn(tx, notices, session, restart)


async def _warn(tx: Transaction, notices: Notices, session: Session, restart: Restart) -> None:
    """Record the crash, and open a warning with the first one in a row."""
    restarts = restart.restarts
    is_first = tx.warnings.find(session.id, WarningKind.CRASH_LOOP) is None
    metadata = {
        "kind": "crash_loop",
        "value": restarts.count,
        "limit": restarts.max,
        "evidence": session.status_reason,
        "next_at": restarts.next_at,
        "exit_code": restarts.exit_code,
        "exit_signal": restarts.exit_signal,
        "ended": False,
        "told": notices.warns_of_crashes and is_first,
    }
    text = f"{subject(session)} has crashed: {session.status_reason}"
    await tx.event(EventType.WARNING, session, tx.now, text, metadata)
    if notices.warns_of_crashes:
        warning = await open_row(
            tx,
            session,
            WarningKind.CRASH_LOOP,
            value=restarts.count,
            limit=restarts.max,
            evidence=session.status_reason,
            recorded=True,
        )
        if warning is not None:
            await notices.add_for_warning(tx, session, warning)


async def after_move(tx: Transaction, session: Session) -> Session:
    """Forget the restart of a session that has ended while it waited."""
    restarts = session.restarts
    if restarts is None or restarts.next_at is None or not is_ended(session.status):
        return session
    tx.timers.remove(session.id, TimerKind.RESTART)
    return await tx.update(session, restarts=replace(restarts, next_at=None))
