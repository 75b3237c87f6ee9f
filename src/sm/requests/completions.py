"""Answers proposed completions inside a transaction."""

from sm.core.models import Caller, Session
from sm.core.reference import request_number
from sm.core.requests import Answer, Request
from sm.core.states import RequestKind, RequestState
from sm.errors import IllegalState, NotFound, UsageError
from sm.operations.hints import Hint, Use
from sm.operations.request_operations import DENY, LIST_REQUESTS, SEE_REQUESTS
from sm.state.request_steps import finish_request, too_late
from sm.store import Transaction


def check_open(request: Request, shown: str | None) -> None:
    """Raise IllegalState for a request that is closed, or not the one that was shown. `shown`: as in `RequestReply`."""
    if not request.open or request.has_proposed_answer:
        raise too_late(request)
    if shown not in (None, request.digest):
        raise IllegalState(
            f"request {request.name} has changed since it was shown",
            Hint("look at it again: ", Use(LIST_REQUESTS, request.name)),
        )


async def answer_completion(
    tx: Transaction, session: Session, request: Request, answer: Answer, caller: Caller
) -> Request:
    """Close the request with its answer. The caller of this function tells the agent."""
    answered = {"state": RequestState.ANSWERED, "answer": answer, "answered_by": caller.name}
    return await finish_request(tx, session, request, tx.now, **answered, taken_at=tx.now)


async def open_completion(
    tx: Transaction, session: Session, reference: str, shown: str | None = None
) -> Request:
    """Find the open request with the id `reference` by which the session proposes its completion.

    `shown`: as in `RequestReply`. Raises NotFound, UsageError for a request of another kind, and IllegalState as
    `check_open`.
    """
    number = request_number(reference)
    request = None if number is None else await tx.mail.request(number)
    if request is None or request.session_id != session.id:
        raise NotFound(f"no such request: {reference[:40]}", SEE_REQUESTS)
    if request.kind is not RequestKind.COMPLETION:
        raise UsageError(
            f"request {request.name} is of kind {request.kind}: only a completion is denied with a review",
            Hint(Use(DENY, request.name)),
        )
    check_open(request, shown)
    return request
