"""Orders about pauses, which the kernel and capabilities give: who carries them out follows sessions.

Functions of a transaction. Where nothing pauses sessions, an order changes nothing.
"""

from sm.core.effects import Effect, EffectKind
from sm.core.labels import name_to_type, short_label
from sm.core.models import Session
from sm.core.pauses import PauseOrder
from sm.core.text import folded
from sm.errors import IllegalState
from sm.operations.hints import Hint, Use
from sm.operations.session_operations import RESUME
from sm.store import Transaction


async def order_pause(tx: Transaction, session: Session, order: PauseOrder) -> Session:
    """Pause a live session, or change the pause of a paused one."""
    for follower in tx.followers:
        await follower.pause(tx, session, order)
    return tx.session(session.id)


async def order_resume(tx: Transaction, session: Session, by: str) -> Session:
    """End the pause of a session."""
    for follower in tx.followers:
        await follower.resume(tx, session, by)
    return tx.session(session.id)


def check_not_paused(session: Session) -> None:
    """Raise IllegalState if a paused session would start an agent."""
    if session.paused is not None:
        raise IllegalState(
            f"session {short_label(session)} is paused ({folded(session.paused.reason)}): it cannot start agents",
            Hint(Use(RESUME, name_to_type(session))),
        )


def end_by_pause(tx: Transaction, session_id: str) -> Effect | None:
    """The open order of a pause to end the process. The session goes on, also if the pause is over by then."""
    return next((kill for kill in _kills(tx, session_id) if kill.payload.get("pause")), None)


def end_by_kill(tx: Transaction, session_id: str) -> Effect | None:
    """The open order to end the process and with it the session."""
    return next((kill for kill in _kills(tx, session_id) if not kill.payload.get("pause")), None)


def _kills(tx: Transaction, session_id: str) -> list[Effect]:
    effects = tx.mail.open.effects.values()
    return [e for e in effects if e.kind == EffectKind.KILL and e.session_id == session_id]
