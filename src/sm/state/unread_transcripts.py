"""Remembers the ended sessions whose last lines are unread, and warns of unread usage. Functions of a transaction.

The timer `unread` of a session is written with its end, so no crash of the daemon loses the usage in these lines.
"""

from dataclasses import replace

from sm.core.models import Session
from sm.core.states import EventType
from sm.core.timers import Timer, TimerKind
from sm.core.wording import subject
from sm.store import Transaction


def record_unread(tx: Transaction, session_id: str, why: str | None) -> None:
    """Record at the end of a process why its last lines are unread, or None if all lines were read."""
    if why is None:
        tx.timers.remove(session_id, TimerKind.UNREAD)
    elif tx.timers.find(session_id, TimerKind.UNREAD) is None:
        tx.timers.set(Timer(session_id, TimerKind.UNREAD, tx.now, data={"told": False}))


async def tell_unread(tx: Transaction, timer: Timer, why: str) -> None:
    """Warn, once, that the usage in the last lines is not counted yet."""
    session = tx.find(timer.subject)
    if session is None or tx.timers.find(timer.subject, timer.kind) != timer or timer.data.get("told"):
        return
    tx.timers.set(replace(timer, data={"told": True}))
    await tx.event(
        EventType.WARNING,
        session,
        tx.now,
        f"{subject(session)} - the end of its transcript cannot be read: {why}. Its last usage is not counted yet; sm "
        "tries again",
        {},
    )


async def tell_uncounted(tx: Transaction, session: Session, why: str) -> None:
    """Warn that a session is removed whose last usage will never be counted."""
    text = (
        f"{subject(session)} - was removed, and the end of its transcript could not be read: {why}. The usage in it is "
        "not counted"
    )
    await tx.event(EventType.WARNING, session, tx.now, text, {})


async def tell_unread_usage(tx: Transaction, session_id: str) -> None:
    """Warn that the tokens of an answer are unknown, because the agent CLI names them in an unknown way."""
    session = tx.session(session_id)
    text = (
        f"{subject(session)} - the tokens of an answer cannot be read. Its tokens and its cost are unknown, and "
        f"budgets count too little; see: sm check {session.provider}"
    )
    await tx.event(EventType.WARNING, session, tx.now, text, {})
