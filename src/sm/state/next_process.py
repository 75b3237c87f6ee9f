"""Plans the next process of a session whose process has ended. Functions of a transaction.

Until the restart is due, the session has the status starting and no process, so it is live: its children and its
messages wait for it.
"""

from dataclasses import replace

from sm.core.lifecycle import is_ended
from sm.core.models import Exit, Session, Signal
from sm.core.next_process import RESTART, GiveUp, OrderedEnd, Restart
from sm.core.states import SignalKind
from sm.core.timers import Timer, TimerKind
from sm.core.timestamps import later
from sm.state.message_steps import keep_messages
from sm.state.notices import Notices
from sm.state.request_steps import cancel_questions
from sm.state.retries import end_row
from sm.store import Transaction


class EndRule:
    """Decides what follows the end of a process. The methods do nothing here."""

    def after_end(
        self, session: Session, signal: Signal, exit: Exit, now: str, ran_s: float, *, closed: bool
    ) -> Restart | GiveUp | None:
        """Decide whether another process follows, or return None if the session ends too.

        `session`: before the end. `ran_s`: how long its process ran. `closed`: somebody closed its terminal.
        """
        return None

    def after_order(self, tx: Transaction, session: Session, exit: Exit) -> OrderedEnd | None:
        """Decide what follows an end of the process that this rule itself has ordered. Returns None for others."""
        return None

    async def follow_plan(self, tx: Transaction, session: Session, restart: Restart) -> None:
        """Follow a restart that the rule has decided and that is planned now."""


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
) -> None:
    """Set the timer of the restart. `before`: the session with its process; `session`: after the crash.

    `why`: how the process ended, for its agent.
    """
    await keep_messages(tx, notices, session)
    await cancel_questions(tx, session, tx.now, "the process has ended")
    end_row(tx, session.id)
    process = before.process
    data = {
        "process": None if process is None else {"pid": process.pid, "started": process.started},
        "began": before.started_at,
        "words": restart.words,
        "why": why,
    }
    due_at = later(tx.now, restart.after_s)
    tx.timers.set(Timer(session.id, TimerKind.RESTART, due_at, restart.after_s, data))


async def after_move(tx: Transaction, session: Session) -> Session:
    """Forget the restart of a session that has ended while it waited."""
    restarts = session.restarts
    if restarts is None or restarts.next_at is None or not is_ended(session.status):
        return session
    tx.timers.remove(session.id, TimerKind.RESTART)
    return await tx.update(session, restarts=replace(restarts, next_at=None))
