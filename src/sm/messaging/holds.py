"""Reasons to hold a message: why a session cannot take one now."""

from collections.abc import Callable

from sm.core.effects import EffectKind
from sm.core.labels import name_to_type, short_label
from sm.core.messages import TERMINAL
from sm.core.models import Session, is_waiting
from sm.core.pauses import PAUSED
from sm.core.states import MessageState, RequestKind
from sm.core.statuses import Status
from sm.errors import IllegalState
from sm.operations.hints import Hint, Use
from sm.operations.session_operations import RESTORE, SHOW_STATUS
from sm.state.part_holds import held_reason, postponed
from sm.store import Open, Transaction

_DIALOGS = {RequestKind.PERMISSION: "permission dialog", RequestKind.QUESTION: "question dialog"}


def link_hold_reason(
    session: Session,
    open: Open,
    now: float,
    find: Callable[[str], Session | None],
    message_id: int | None = None,
) -> str | None:
    """The reason to send nothing over the link now, or None. A message there answers no dialog, so none holds it.

    Arguments: as for `hold_reason`.
    """
    return _hold_reason(session, open, now, find, message_id, over_link=True)


def hold_reason(
    session: Session,
    open: Open,
    now: float,
    find: Callable[[str], Session | None],
    message_id: int | None = None,
) -> str | None:
    """The reason in its status, a hold or a postponement to type nothing now, or None if its terminal decides.

    `now`: seconds since the epoch. `find` takes the id of a session. `message_id`: the message to type, if it exists.
    """
    why = _hold_reason(session, open, now, find, message_id, over_link=False)
    if why is not None:
        return why
    for message in open.messages.values():
        if (message.session_id, message.state, message.via) == (
            session.id,
            MessageState.DELIVERING,
            TERMINAL,
        ):
            return f"message {message.id} is delivered first"
    return None


def _hold_reason(
    session: Session,
    open: Open,
    now: float,
    find: Callable[[str], Session | None],
    message_id: int | None,
    *,
    over_link: bool,
) -> str | None:
    if session.paused is not None:  # a start may wait for the end of the pause
        return PAUSED
    if session.status in (Status.SPAWNED, Status.STARTING):
        return "the session is starting"
    if (why := held_reason(session, find, open, message_id)) is not None:
        return why
    if session.status is Status.WAITING_INPUT and not over_link:
        return busy_reason(session, open, session.status_reason)
    return postponed(session, open, now)


def busy_reason(session: Session, open: Open, why: str) -> str:
    for request in open.requests.values():
        if request.session_id == session.id and request.open and request.hook is not None:
            return f"busy: {_DIALOGS.get(request.kind, 'dialog')}, {request.name}"
    return f"busy: {why}"


def check_runs(tx: Transaction, session: Session) -> None:
    """Raise IllegalState unless the session's own process runs."""
    if session.exit is not None:
        raise IllegalState(
            f"session {short_label(session)} has ended ({session.status}): it cannot take messages",
            Hint(Use(RESTORE, name_to_type(session))),
        )
    if is_waiting(session):
        raise IllegalState(
            f"the process of session {short_label(session)} has ended, and the next one has not started",
            Hint(Use(SHOW_STATUS, name_to_type(session))),
        )
    if is_restored(session, tx.mail.open):
        raise IllegalState(f"session {short_label(session)} is being restored", "try again in a moment")


def is_restored(session: Session, open: Open) -> bool:
    """True while the session is being restored: its new process does not run yet."""
    starting = any(e.kind == EffectKind.START and e.session_id == session.id for e in open.effects.values())
    return starting and session.runs > 1
