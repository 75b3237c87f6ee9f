"""Records finished turns and resumed work, and counts the unfinished work of a session."""

from collections.abc import Iterable

from sm.core.lifecycle import is_live
from sm.core.models import Session
from sm.core.states import RequestKind
from sm.core.timers import TimerKind
from sm.core.turns import FinishedTurn
from sm.policy.unfinished import Unfinished
from sm.state.request_steps import open_of
from sm.state.retries import end_row
from sm.store import Open, Transaction


async def turn_ended(tx: Transaction, session: Session, turn: FinishedTurn) -> Session:
    """Record the end of a turn of an idle session. Returns the session with the reason of its status."""
    session = await tx.update(session, turn_ended_at=turn.ended_at)
    tx.turn_ends.remove(session.id, turn.ended_at)
    for follower in tx.followers:
        session = await follower.follow_turn(tx, session, turn)
    return session


def end_turns(tx: Transaction, session: Session) -> None:
    """Forget what waits for the next turn of a session that has ended."""
    end_row(tx, session.id)
    tx.timers.remove(session.id, TimerKind.COMPACTED)
    tx.turn_ends.remove(session.id)


def unfinished_work(
    sessions: Iterable[Session], open: Open, session_id: str, *, background: int = 0
) -> Unfinished:
    """Count the unfinished work of the session. `sessions`: all that are live, or whose process runs."""
    notices = [notice for notice in open.notices.values() if notice.recipient == session_id]
    messages = [message for message in open.messages.values() if message.session_id == session_id]
    return Unfinished(
        children=sum(s.parent_id == session_id and is_live(s.status) for s in sessions),
        messages=len(messages) + len(notices),
        requests=tuple(r.name for r in open_of(open.requests, session_id, list(RequestKind))),
        background=background,
    )
