"""Records what follows a finished turn: timers, and the question that its final message asks."""

from collections.abc import Iterable

from sm.core.lifecycle import is_live
from sm.core.models import Session
from sm.core.requests import Question
from sm.core.states import RequestKind, RequestState
from sm.core.timers import Timer, TimerKind
from sm.core.timestamps import later
from sm.core.turns import FinishedTurn
from sm.policy.completion import Unfinished, reason_to_wait
from sm.state.notices import Notices
from sm.state.requests import NewRequest, finish_request, open_of, open_request
from sm.state.retries import end_row
from sm.store import Open, Transaction

FROM_COMPLETION = "completion"
"""The evidence of a request, and the source of a status, that rest on the final message of a turn."""
_OF_TURNS = (TimerKind.COMPLETION, TimerKind.UNCLEAR, TimerKind.REMINDER, TimerKind.MISSING_REPORT)


async def turn_ended(tx: Transaction, notices: Notices, session: Session, turn: FinishedTurn) -> Session:
    """Set the timers and open the question of an idle session. Returns the session with the reason of its status."""
    session = await tx.update(session, turn_ended_at=turn.ended_at)
    tx.turn_ends.remove(session.id, turn.ended_at)
    tx.timers.remove(session.id, *_OF_TURNS)
    if turn.follow_up is None:
        return session
    for wait in turn.follow_up.waits:
        due_at = later(tx.now, wait.seconds)
        tx.timers.set(Timer(session.id, wait.kind, due_at, wait.seconds, wait.data))
    if turn.follow_up.question is not None:
        asked = NewRequest(
            RequestKind.QUESTION, (Question(turn.follow_up.question),), evidence=FROM_COMPLETION
        )
        await open_request(tx, notices, session, asked, tx.now, None)
    left = unfinished_work(tx.unfinished_sessions(), tx.mail.open, session.id)
    reason = reason_to_wait(left) or turn.follow_up.reason
    return session if reason is None else await tx.update(session, status_reason=reason)


async def work_resumed(tx: Transaction, session: Session) -> None:
    """Remove the timers, and cancel the requests that sm found in the final message: the session works or has ended."""
    tx.timers.remove(session.id, *_OF_TURNS)
    if not is_live(session.status):
        end_row(tx, session.id)
        tx.timers.remove(session.id, TimerKind.COMPACTED)
        tx.turn_ends.remove(session.id)
    reason = "the session works again" if is_live(session.status) else "the session has ended"
    for request in open_of(tx.mail.open.requests, session.id, list(RequestKind)):
        if request.evidence == FROM_COMPLETION:
            await finish_request(tx, session, request, tx.now, state=RequestState.CANCELLED, reason=reason)


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
