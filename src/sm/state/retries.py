"""Retries of turns that failed because of the service. Functions of a transaction.

The timer RETRY is the next retry. RETRIED remembers the retries in a row, from the message to go on until its turn has
succeeded or failed. Times are seconds since the epoch.
"""

from sm.core.messages import SM_ITSELF
from sm.core.models import Session
from sm.core.timers import Timer, TimerKind
from sm.core.timestamps import epoch_s, later
from sm.core.usage import FollowUpKind
from sm.state.message_steps import send
from sm.store import Transaction

GO_ON = "A fault of the service ended your last turn. It may be over. Go on with your work."
_ROW_S = 3600.0
"""A turn that fails later than this after a retry is not in a row with it."""


def retries_before(tx: Transaction, session_id: str) -> int:
    """The retries in a row before a fault that is recorded now."""
    last = tx.timers.find(session_id, TimerKind.RETRIED)
    return 0 if last is None else int(last.data["number"])


def last_retry_at(tx: Transaction, session_id: str) -> float | None:
    """The time of the last retry, or None if no retry came before the session's current turn."""
    last = tx.timers.find(session_id, TimerKind.RETRIED)
    return None if last is None else float(last.data["sent_at"])


def plan_retry(
    tx: Transaction, session: Session, number: int, most: int, failed_at: float, pause_s: float
) -> Timer:
    """Set the timer of retry `number` of `most`, for a turn that failed at `failed_at`."""
    data = {"number": number, "max": most, "failed_at": failed_at}
    timer = Timer(session.id, TimerKind.RETRY, later(tx.now, pause_s), pause_s, data)
    tx.timers.remove(session.id, TimerKind.RETRIED)
    tx.timers.set(timer)
    return timer


def carry_out(tx: Transaction, session: Session, timer: Timer) -> bool:
    """Send the message to go on, in the transaction that takes the timer. Returns False if the timer has changed."""
    if not tx.timers.take(timer):
        return False
    send(tx, session.id, SM_ITSELF, GO_ON)
    tx.sums.add_follow_up(session.id, FollowUpKind.RETRY, tx.now)
    data = {"number": timer.data["number"], "sent_at": epoch_s(tx.now)}
    tx.timers.set(Timer(session.id, TimerKind.RETRIED, later(tx.now, _ROW_S), _ROW_S, data))
    return True


def end_row(tx: Transaction, session_id: str) -> None:
    """Remove the retry and the count: the session has ended, or its failure is reported."""
    tx.timers.remove(session_id, TimerKind.RETRY, TimerKind.RETRIED)


def prompt_came(tx: Transaction, session_id: str, at: float) -> None:
    """Cancel the pending retry of a turn that failed before `at`: the session has got another prompt."""
    pending = tx.timers.find(session_id, TimerKind.RETRY)
    if pending is not None and pending.data["failed_at"] < at:
        end_row(tx, session_id)


def turn_succeeded(tx: Transaction, session_id: str, at: float) -> None:
    """End the row if the turn that succeeded at `at` followed the last retry.

    A pending retry stays: an agent CLI may also report the end of a turn that failed.
    """
    sent_at = last_retry_at(tx, session_id)
    if sent_at is not None and sent_at < at:
        tx.timers.remove(session_id, TimerKind.RETRIED)
