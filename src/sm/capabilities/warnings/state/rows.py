"""The rows, events and timers of warnings. Functions of a transaction.

A warning is one episode: opened once, and closed when its cause has ended. Then it may come again.
"""

from sm.capabilities.warnings.model import EVIDENCE_MAX, OF_PROCESS, OF_WORK, SessionWarning, WarningTimer
from sm.capabilities.warnings.tables import PART
from sm.capabilities.warnings.text.sentences import warning_ended_event, warning_event
from sm.core.lifecycle import is_ended
from sm.core.models import Session
from sm.core.states import EventType, MessageState, NoticeKind
from sm.core.statuses import Status
from sm.core.text import folded
from sm.core.timers import Timer
from sm.core.timestamps import later
from sm.core.warnings import WarningKind
from sm.state.notices import withdraw
from sm.store import Transaction

FIRST_LOOK_S = 5.0
"""Seconds of work until a session is checked for the first time."""


async def open_row(
    tx: Transaction,
    session: Session,
    kind: WarningKind,
    *,
    value: float,
    limit: float,
    evidence: str,
    told: bool = True,
    recorded: bool = False,
    subject: str = "",
) -> SessionWarning | None:
    """Open a warning with its event, without a notice. Returns None if it is open already.

    `told`: the operator gets a notice. `recorded`: the event exists.
    """
    if tx.part(PART).find(session.id, kind, subject) is not None:
        return None
    text = folded(evidence, EVIDENCE_MAX)
    warning = SessionWarning(
        tx.mail.new_id("warnings"),
        session.id,
        kind,
        tx.now,
        round(value, 2),
        round(limit, 2),
        text,
        subject=subject,
    )
    tx.part(PART).add(warning)
    if not recorded:
        metadata = _metadata(warning) | {"ended": False, "told": told}
        await tx.event(EventType.WARNING, session, tx.now, warning_event(session, warning), metadata)
    return warning


def warning_occasion(warning: SessionWarning) -> str:
    return f"warning:{warning.id}"


async def close_warning(tx: Transaction, session: Session, kind: WarningKind, subject: str = "") -> None:
    """Close the open warning of this kind about this subject, and withdraw its notices and its nudge."""
    warning = tx.part(PART).find(session.id, kind, subject)
    if warning is not None:
        await _close(tx, session, warning)


async def _close(tx: Transaction, session: Session, warning: SessionWarning) -> None:
    tx.part(PART).change(warning, closed_at=tx.now)
    metadata = _metadata(warning) | {"ended": True, "told": False}
    await tx.event(EventType.WARNING, session, tx.now, warning_ended_event(session, warning), metadata)
    occasion = warning_occasion(warning)
    await withdraw(
        tx,
        session.id,
        lambda n: n.kind is NoticeKind.WARNING and n.occasion.partition("/")[0] == occasion,
    )
    nudge = None if warning.nudge is None else tx.mail.open.messages.get(warning.nudge)
    if nudge is not None and nudge.state is MessageState.QUEUED:
        tx.mail.move_message(nudge, MessageState.EXPIRED, tx.now, reason="withdrawn: its cause has ended")


def _metadata(warning: SessionWarning) -> dict[str, object]:
    return {
        "kind": warning.kind.value,
        "value": warning.value,
        "limit": warning.limit,
        "evidence": warning.evidence,
        **({"subject": warning.subject} if warning.subject else {}),
    }


async def after_move(tx: Transaction, session: Session) -> None:
    """Follow a change of a session's status or pause: close the warnings whose cause has ended, and watch its work."""
    works = session.status is Status.RUNNING and session.paused is None
    for warning in tx.part(PART).all_of(session.id):
        if _is_over(session, warning.kind, works=works):
            await _close(tx, session, warning)
    if works:
        if tx.timers.find(session.id, WarningTimer.WATCH) is None:
            due_at = later(tx.now, FIRST_LOOK_S)
            tx.timers.set(Timer(session.id, WarningTimer.WATCH, due_at, FIRST_LOOK_S))
    elif all(w.kind not in OF_PROCESS for w in tx.part(PART).all_of(session.id)):
        tx.timers.remove(session.id, WarningTimer.WATCH)


def _is_over(session: Session, kind: WarningKind, *, works: bool) -> bool:
    if is_ended(session.status):
        return True
    if session.paused is not None:
        return False  # it shows why the session was paused
    if kind in OF_WORK:
        return not works
    if kind is WarningKind.REPORT_MISSING:
        return session.status is not Status.IDLE
    return kind is WarningKind.LOOP and session.status is Status.IDLE
