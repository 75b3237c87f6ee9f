"""Requests inside a transaction: opened, settled, called off. `requests` is about who may do it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sm.models import EventType, Question, Request, RequestKind, RequestState, Session
from sm.notices import Notices
from sm.store import Transaction
from sm.wording import request_opened, request_settled


@dataclass(frozen=True, slots=True)
class Asked:
    """What a session asks for."""

    kind: RequestKind
    questions: tuple[Question, ...] = ()
    tool: str | None = None
    arguments: Mapping[str, Any] | None = None


async def open_request(
    tx: Transaction, notices: Notices, session: Session, asked: Asked, at: str, expires_at: str | None
) -> Request:
    """A new request of the session, with its event and its notice."""
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
    )
    tx.mail.add_request(request)
    await tx.event(
        EventType.REQUEST, session, at, request_opened(session, request), {"request_id": request.name}
    )
    await notices.of_request(tx, session, request)
    return request


async def settle(tx: Transaction, session: Session, request: Request, at: str, **changes: Any) -> Request:
    """The request is open no more, for whatever reason; its event says why."""
    after = tx.mail.change_request(request, state_at=at, **changes)
    metadata = {"request_id": request.name, "state": after.state.value, "answered_by": after.answered_by}
    await tx.event(EventType.REQUEST, session, at, request_settled(session, after), metadata)
    for notice in [n for n in tx.mail.open.notices.values() if _about(n.occasion, n.session_id, request)]:
        tx.mail.settle_notices([notice], "dropped")  # nobody has to do anything any more
    return after


def _about(occasion: str, session_id: str, request: Request) -> bool:
    return session_id == request.session_id and occasion == f"request:{request.id}"


def open_of(requests: Mapping[int, Request], session_id: str, kinds: Sequence[RequestKind]) -> list[Request]:
    """The open requests of a session."""
    return [r for r in requests.values() if r.session_id == session_id and r.open and r.kind in kinds]


async def call_off(tx: Transaction, session: Session, at: str, reason: str) -> None:
    """Nobody waits any more for what this session has asked."""
    for request in open_of(tx.mail.open.requests, session.id, list(RequestKind)):
        await settle(tx, session, request, at, state=RequestState.CANCELLED, reason=reason)
    for request in [r for r in tx.mail.open.requests.values() if r.session_id == session.id]:
        tx.mail.change_request(request, taken_at=at)  # answered, and there is nobody to take it
