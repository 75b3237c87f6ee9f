"""Opens, finishes and cancels requests inside a transaction. The room `requests` decides who may do so."""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from sm.core.dataclass import dataclass
from sm.core.messages import SM_ITSELF
from sm.core.models import Session
from sm.core.requests import BY_RULE, BY_TERMINAL, Answer, Question, Request
from sm.core.states import EventType, RequestKind, RequestState
from sm.core.text import quoted
from sm.core.timestamps import later
from sm.core.wording import (
    decider,
    outcome,
    request_corrected_event,
    request_finished_event,
    request_ignored_event,
    request_opened_event,
)
from sm.errors import IllegalState
from sm.operations.hints import Hint, Use
from sm.operations.request_operations import LIST_REQUESTS
from sm.state.message_steps import send
from sm.state.notices import Notices, request_occasions, withdraw
from sm.store import Transaction

EXPIRES_S = 24 * 3600.0
"""Default time until a request expires."""
IGNORED = "the agent did not act on the answer: its dialog is still open"
"""The `reason` of an open request whose hook printed an answer without effect."""
OPEN_MAX = 50
"""Open requests of one session."""


@dataclass(frozen=True, slots=True)
class NewRequest:
    kind: RequestKind
    questions: tuple[Question, ...] = ()
    tool: str | None = None
    arguments: Mapping[str, Any] | None = None
    hook: str | None = None
    tool_use: str | None = None
    agent: str = ""
    cut: bool = False
    evidence: str | None = None
    plan: str | None = field(default=None, repr=False)
    """The plan to approve, for a permission to leave plan mode."""
    reason: str | None = None
    """The reason why it must be answered at the terminal, or None if it need not."""


@dataclass(frozen=True, slots=True)
class RuleDecision:
    answer: Answer
    by: str
    reason: str


async def open_request(
    tx: Transaction,
    notices: Notices,
    session: Session,
    asked: NewRequest,
    at: str,
    expires_at: str | None,
    decided: RuleDecision | None = None,
) -> Request:
    """Open a request, with its event and its notice. A request that is already `decided` gets no notice."""
    request = Request(
        id=tx.mail.new_id("requests"),
        session_id=session.id,
        kind=asked.kind,
        state=RequestState.OPEN,
        created_at=at,
        state_at=at,
        expires_at=expires_at,
        tool=asked.tool,
        arguments=asked.arguments,
        questions=asked.questions,
        hook=asked.hook,
        tool_use=asked.tool_use,
        agent=asked.agent,
        cut=asked.cut,
        evidence=asked.evidence,
        reason=asked.reason,
    )
    if decided is not None:
        request = replace(request, answer=decided.answer, answered_by=decided.by, reason=decided.reason)
    tx.mail.add_request(request)
    line = request_opened_event(session, request, asked.plan)
    await tx.event(EventType.REQUEST, session, at, line, {"request_id": request.name})
    if decided is None:
        await notices.add_for_request(tx, session, request, asked.plan)
        for follower in tx.followers:
            await follower.follow_request(tx, session, request)
    return request


async def finish_request(
    tx: Transaction, session: Session, request: Request, at: str, **changes: Any
) -> Request:
    """Close a request, with its event, and withdraw its notice."""
    after = tx.mail.change_request(request, state_at=at, **changes)
    metadata = {"request_id": request.name, "state": after.state.value, "answered_by": after.answered_by}
    await tx.event(
        EventType.REQUEST,
        session,
        at,
        request_finished_event(session, after, tx.find(after.answered_by)),
        metadata,
    )
    await _withdraw_notice(tx, request)
    if not after.open:
        for follower in tx.followers:
            await follower.follow_closed_request(tx, session, request)
    return after


async def _withdraw_notice(tx: Transaction, request: Request) -> None:
    occasions = request_occasions(request)
    await withdraw(tx, request.session_id, lambda notice: notice.occasion in occasions)


async def finish_with_proposed_answer(
    tx: Transaction, request: Request, at: str, *, confirmed: bool
) -> Request:
    """Close a request with its proposed answer. The text of an approval becomes a separate message.

    `confirmed`: the agent has shown that the answer decided. Otherwise the request stays unconfirmed, if the agent
    names the tool use.
    """
    session = tx.session(request.session_id)
    taken_at = None if request.tool_use and not confirmed else at
    done = await finish_request(tx, session, request, at, state=RequestState.ANSWERED, taken_at=taken_at)
    if done.answer is not None and done.answer.approved and done.answer.message:
        send_outcome(tx, done, f"{done.name} was {outcome(done)}")
    return done


async def correct_answer(
    tx: Transaction,
    notices: Notices,
    session: Session,
    request: Request,
    *,
    allowed: bool,
    answers: tuple[str, ...] = (),
) -> Request:
    """Replace an answer that came too late by the decision in the terminal, and notify whoever gave the answer.

    `answers`: as in `Answer`.
    """
    after = tx.mail.change_request(
        request,
        state=RequestState.ANSWERED,
        state_at=tx.now,
        answer=Answer(allowed, answers),
        answered_by=BY_TERMINAL,
        reason=f"the answer {decider(request, tx.find(request.answered_by))} came too late",
        taken_at=tx.now,
    )
    metadata = {"request_id": after.name, "state": after.state.value, "answered_by": after.answered_by}
    await tx.event(EventType.REQUEST, session, tx.now, request_corrected_event(session, after), metadata)
    await _withdraw_notice(tx, request)
    if request.answered_by != BY_RULE:
        await notices.add_for_late_answer(tx, session, after, request.answered_by or "")
    return after


async def reopen_request(tx: Transaction, notices: Notices, session: Session, request: Request) -> Request:
    """Open a request again whose answer the agent ignored, with its event and another notice.

    Only a person at the terminal can answer it now, because its hook has ended.
    """
    after = tx.mail.change_request(
        request,
        state=RequestState.OPEN,
        state_at=tx.now,
        expires_at=later(tx.now, EXPIRES_S),
        answer=None,
        answered_by=None,
        reason=IGNORED,
        taken_at=None,
    )
    line = request_ignored_event(session, request, tx.find(request.answered_by))
    metadata = {"request_id": after.name, "state": after.state.value, "answered_by": None}
    await tx.event(EventType.REQUEST, session, tx.now, line, metadata)
    await notices.add_for_ignored_answer(tx, session, after)
    return after


def answer_ignored(request: Request) -> IllegalState:
    """The error for an answer to a request whose agent ignored an answer."""
    return IllegalState(
        f"the agent did not act on the answer to {request.name}: its dialog is still open",
        f"answer in the terminal: sm attach {request.session_id}",
    )


def open_of(requests: Mapping[int, Request], session_id: str, kinds: Sequence[RequestKind]) -> list[Request]:
    return [r for r in requests.values() if r.session_id == session_id and r.open and r.kind in kinds]


async def cancel_requests(tx: Transaction, session: Session, at: str, reason: str) -> None:
    """Cancel every open request of a session whose process is gone, and those that nobody else needs."""
    outliving = frozenset[RequestKind]().union(*(part.outliving for part in tx.parts))
    own = open_of(tx.mail.open.requests, session.id, [kind for kind in RequestKind if kind not in outliving])
    needless = [request for part in tx.parts for request in part.needless_requests(session)]
    await _cancel(tx, session, [*own, *needless], at, reason)
    for request in [r for r in tx.mail.open.requests.values() if r.session_id == session.id]:
        tx.mail.change_request(request, taken_at=at)  # answered, but no process can take the answer


async def cancel_questions(tx: Transaction, session: Session, at: str, reason: str) -> None:
    """Cancel the requests of a session whose answer only its last process could take."""
    kinds = (RequestKind.PERMISSION, RequestKind.QUESTION, RequestKind.SETUP, RequestKind.DIALOG)
    await _cancel(tx, session, open_of(tx.mail.open.requests, session.id, kinds), at, reason)
    own = [r for r in tx.mail.open.requests.values() if r.session_id == session.id and r.kind in kinds]
    for request in own:
        tx.mail.change_request(request, taken_at=at)


async def _cancel(
    tx: Transaction, session: Session, requests: Sequence[Request], at: str, reason: str
) -> None:
    # The hook has not taken a proposed answer.
    no_answer = {"answer": None, "answered_by": None}
    for request in requests:
        owner = tx.find(request.session_id) or session
        await finish_request(tx, owner, request, at, state=RequestState.CANCELLED, reason=reason, **no_answer)


def send_outcome(tx: Transaction, request: Request, text: str) -> None:
    """Send the outcome of a request to its session as a message."""
    send(tx, request.session_id, request.answered_by or SM_ITSELF, text)


def too_late(request: Request) -> IllegalState:
    """The error for an answer to a request that is closed, or that has a proposed answer."""
    name, words = request.name, f": {quoted(outcome(request), 200)}" if request.answer else ""
    match request.state:
        case RequestState.OPEN:
            message = f"request {name} was just answered {decider(request)}{words}"
        case RequestState.ANSWERED:
            message = f"request {name} was answered {decider(request)} at {request.state_at}{words}"
        case RequestState.EXPIRED:
            message = f"request {name} expired at {request.state_at}"
        case _:
            message = f"request {name} was {request.state} at {request.state_at}: {request.reason or '-'}"
    return IllegalState(message, Hint("show the outcome: ", Use(LIST_REQUESTS, name)))
