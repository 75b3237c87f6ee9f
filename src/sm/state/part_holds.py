"""Holds of capabilities, such as a spent budget: what they keep a session from, and what they leave to it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sm.core.messages import SM_ITSELF
from sm.core.models import Session
from sm.errors import IllegalState
from sm.store import Open, Transaction
from sm.store.part import Find, PartWrites, TablePart, WorkHold


def hold_of(session: Session, find: Find, open: Open) -> WorkHold | None:
    """The hold that lets the session start no turn and no agent, or None if there is none."""
    return next((hold for _, hold in _holds(session, find, open)), None)


def held_reason(session: Session, find: Find, open: Open, message_id: int | None) -> str | None:
    """Why a message waits for a hold of the session to end, or None if it does not."""
    hold = hold_of(session, find, open)
    if hold is None or (message_id is not None and message_id == hold.passes):
        return None
    return hold.reason


def check_may_start(tx: Transaction, session: Session) -> None:
    """Raise IllegalState if a hold stops the session from starting an agent or from being started."""
    for part, hold in _holds(session, tx.find, tx.mail.open):
        raise tx.part(part).start_refusal(hold)


def resume_refusal(tx: Transaction, session: Session) -> IllegalState | None:
    """The error for a paused session that a hold keeps from going on, or None if it may go on."""
    for part, hold in _holds(session, tx.find, tx.mail.open):
        if session.paused is not None and hold.keeps_paused:
            return tx.part(part).resume_refusal(session, hold)
    return None


def postponed(session: Session, open: Open, now: float) -> str | None:
    """Why the session may start no turn now, or None if it may. `now`: seconds since the epoch."""
    return next((why for _, why in _postponements(session, open, now)), None)


def check_not_postponed(tx: Transaction, session: Session, now: float) -> None:
    """Raise the error for a new session that would have to wait."""
    for part, why in _postponements(session, tx.mail.open, now):
        raise tx.part(part).wait_refusal(session, why)


async def leave_to_hold(tx: Transaction, session: Session) -> bool:
    """Let the end of its hold end the session's pause. Returns False if nothing holds the session."""
    hold = hold_of(session, tx.find, tx.mail.open)
    if hold is None:
        return False
    if session.paused is not None:
        pause = replace(
            session.paused, by=SM_ITSELF, hold=hold.subject, account=None, reason=hold.reason, until=None
        )
        await tx.update(session, paused=pause)
    return True


def _holds(session: Session, find: Find, open: Open) -> Iterator[tuple[TablePart[Any, PartWrites], WorkHold]]:
    part: TablePart[Any, PartWrites]
    for part, rows in open.parts.items():
        hold = part.hold(session, find, rows)
        if hold is not None:
            yield part, hold


def _postponements(
    session: Session, open: Open, now: float
) -> Iterator[tuple[TablePart[Any, PartWrites], str]]:
    part: TablePart[Any, PartWrites]
    for part in open.parts:
        why = part.postponed(session, open, now)
        if why is not None:
            yield part, why
