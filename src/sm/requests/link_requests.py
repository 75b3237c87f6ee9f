"""Turns the requests that agents make over links into requests of sm, and sends the answers.

Every client of the agent's program may answer such a request, as a person in the agent's terminal does, and the first
answer wins. So an answer of sm is a proposed answer until the program says whose answer decided. A new link begins with
the requests that are still open: the same request is found again by the key that `Request.hook` stores, also after a
restart of the daemon, and a proposed answer is sent again.
"""

import asyncio
import logging
from dataclasses import field, replace

from sm.core.dataclass import dataclass
from sm.core.models import Caller, Session
from sm.core.requests import BY_RULE, BY_TERMINAL, Question, Request, RequestOrigin, link_key
from sm.core.states import RequestKind, RequestState
from sm.core.text import folded
from sm.errors import IllegalState, SmError, UsageError, WaitTimeout
from sm.operations.hints import Hint, Use
from sm.operations.request_operations import LIST_REQUESTS
from sm.providers.links import (
    AgentLink,
    Answerer,
    LinkAnswer,
    OfferedDecision,
    RequestId,
    RequestOpened,
    RequestResolved,
)
from sm.requests.confirmations import answered_by_caller, name_of
from sm.state.notices import Notices
from sm.state.request_steps import correct_answer, finish_request, finish_with_proposed_answer
from sm.store import Store, Transaction, durable

log = logging.getLogger(__name__)

RESOLVED_WITHIN_S = 5.0
"""How long the answering command waits until the program says whose answer decided."""
_REOPENED_WITHIN_S = 5.0
"""How long a new link may take to repeat the requests that are still open."""
_IN_TERMINAL = "answered in the terminal"
_UNANSWERED = "the agent closed the request without an answer"
_NOT_ANSWERED = "could not answer a request: %s"
_MEANWHILE = "the request was closed while the link to the agent was lost"


@dataclass(slots=True)
class _LinkState:
    """The requests on one open link. `numbers`: their numbers in sm, also of those that are closed."""

    link: AgentLink
    numbers: dict[RequestId, int] = field(default_factory=dict)
    waiting: dict[int, RequestOpened] = field(default_factory=dict)
    """By number: the ones that the program has open."""
    speaks: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the program has told its state."""


class LinkRequests:
    """The requests of links. `Dialogs` opens them, and brings their answers."""

    def __init__(self, store: Store, notices: Notices) -> None:
        self._store = store
        self._notices = notices
        self._links: dict[str, _LinkState] = {}
        self._sent: dict[int, AgentLink] = {}
        """By number: the link on which this daemon has last sent the proposed answer."""
        self._from_before = frozenset(
            r.id
            for r in store.mail.open.requests.values()
            if r.origin is RequestOrigin.LINK and r.has_proposed_answer
        )
        """Requests with an answer that an earlier daemon proposed, and may have sent."""

    # The link

    async def serve(self, session_id: str, link: AgentLink) -> None:
        """Send answers over this link, until the caller cancels. Raises ConnectionError."""
        state = self._links[session_id] = _LinkState(link)
        known = self._store.mail.open.requests
        self._sent = {number: sent for number, sent in self._sent.items() if number in known}
        before = [request.id for request in self._open_of(session_id)]
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._close_missing(state, before))
                while True:
                    await self._store.wait_until(lambda: bool(self._due(session_id, state)))
                    for request in self._due(session_id, state):
                        await self._send(state, request)
        finally:
            if self._links.get(session_id) is state:
                del self._links[session_id]

    def _open_of(self, session_id: str) -> list[Request]:
        requests = self._store.mail.open.requests.values()
        return [
            r for r in requests if r.open and r.origin is RequestOrigin.LINK and r.session_id == session_id
        ]

    def _due(self, session_id: str, state: _LinkState) -> list[Request]:
        return [
            request
            for request in self._open_of(session_id)
            if request.has_proposed_answer
            and request.id in state.waiting
            and self._sent.get(request.id) is not state.link
        ]

    async def _send(self, state: _LinkState, request: Request) -> None:
        opened, answer = state.waiting[request.id], request.answer
        self._sent[request.id] = state.link
        if answer is None:
            return
        words = None if answer.approved else answer.message  # those of an approval are a message of their own
        if request.kind is RequestKind.PERMISSION and answer.answers:
            decision = _offered(opened, answer.answers[0])
            if decision is None:
                await durable(self._withdraw)(request)
                return
            sent = LinkAnswer(answer.approved, decision, message=words)
        else:
            sent = LinkAnswer(answer.approved, None, answer.answers, words)
        try:
            await state.link.answer(opened.id, sent)
        except IllegalState as error:
            log.warning(_NOT_ANSWERED, error.message, extra={"sm_session": request.session_id})
            await durable(self._withdraw)(request)
        except SmError as error:
            # The program may have the answer: its word decides, or the next link sends the answer again.
            log.warning(_NOT_ANSWERED, error.message, extra={"sm_session": request.session_id})

    async def _close_missing(self, state: _LinkState, before: list[int]) -> None:
        """Close the requests of an earlier link that this one does not repeat: someone has answered them meanwhile."""
        if not before:
            return
        await state.speaks.wait()
        await asyncio.sleep(_REOPENED_WITHIN_S)
        for number in before:
            if number not in state.waiting:
                await durable(self._close)(number, None, _MEANWHILE)

    # Words of the link

    def note_state(self, session_id: str) -> None:
        """The program has told its state: it repeats its open requests now, or has done so."""
        if (state := self._links.get(session_id)) is not None:
            state.speaks.set()

    def attach(self, session_id: str, request: Request, opened: RequestOpened) -> None:
        """Note that the program waits for this request, which `Dialogs` has opened or found again."""
        state = self._links.get(session_id)
        if state is not None:
            state.numbers[opened.id] = request.id
            state.waiting[request.id] = opened

    async def send_proposed(self, session_id: str) -> None:
        """Send the answers that an earlier link may have lost. Raises ConnectionError."""
        state = self._links.get(session_id)
        for request in [] if state is None else self._due(session_id, state):
            assert state is not None
            await self._send(state, request)

    async def resolved(self, session_id: str, event: RequestResolved) -> None:
        """The program has closed a request, or corrects whose answer has decided."""
        state = self._links.get(session_id)
        number = None if state is None else state.numbers.get(event.id)
        if state is None or number is None:
            return
        state.waiting.pop(number, None)
        await durable(self._close)(number, event.by, _UNANSWERED)

    async def _close(self, number: int, by: Answerer | None, unanswered: str) -> None:
        async with self._store.transaction() as tx:
            now = await tx.mail.request(number)
            session = tx.find(now.session_id)
            if session is None:
                return
            if now.open:
                await self._finish(tx, session, now, by, unanswered)
            elif by is Answerer.TERMINAL and now.answer is not None and now.answered_by != BY_TERMINAL:
                await correct_answer(tx, self._notices, session, now, allowed=not now.answer.approved)
        self._sent.pop(number, None)

    async def _finish(
        self, tx: Transaction, session: Session, now: Request, by: Answerer | None, unanswered: str
    ) -> None:
        if now.answer is not None and by is Answerer.LINK:
            await finish_with_proposed_answer(tx, now, tx.now, confirmed=True)
        elif now.answer is not None and self._may_be_sent(now.id) and by is None and unanswered is _MEANWHILE:
            # The end of the tool use will show whose answer decided.
            await finish_with_proposed_answer(tx, now, tx.now, confirmed=False)
        elif by is Answerer.TERMINAL:
            await self._over(tx, session, now, RequestState.ANSWERED, _IN_TERMINAL, BY_TERMINAL)
        else:
            await self._over(tx, session, now, RequestState.CANCELLED, unanswered, None)

    def _may_be_sent(self, number: int) -> bool:
        return number in self._sent or number in self._from_before

    async def _over(
        self,
        tx: Transaction,
        session: Session,
        now: Request,
        state: RequestState,
        reason: str,
        by: str | None,
    ) -> None:
        """Close a request without an answer of sm. A reason of before stays, as that of an interrupt."""
        why = (now.reason if now.answer is None else None) or reason
        await finish_request(
            tx, session, now, tx.now, state=state, answer=None, answered_by=by, reason=why, taken_at=tx.now
        )

    # Calls of answerers

    def decision(self, request: Request, name: str) -> OfferedDecision:
        """The decision of this name that a permission offers. Raises UsageError, and IllegalState without a link."""
        state = self._links.get(request.session_id)
        opened = None if state is None else state.waiting.get(request.id)
        if opened is None:
            raise IllegalState(
                f"the link to the agent of request {request.name} is lost",
                f"try again in a moment, or answer in the terminal: sm attach {request.session_id}",
            )
        found = _offered(opened, name)
        if found is None or found.approves is None:
            raise UsageError(
                f"request {request.name} does not offer the decision {folded(name, 80)}",
                Hint("show its decisions: ", Use(LIST_REQUESTS, request.name)),
            )
        return found

    async def wait(self, proposed: Request, caller: Caller) -> Request:
        """Wait until the program says whose answer decided.

        Raises IllegalState when another answer was first, or when the answer could not be sent, which is then
        withdrawn. Raises WaitTimeout if the answer was sent and nothing is known: it still may decide.
        """

        def is_over() -> bool:
            now = self._store.mail.open.requests.get(proposed.id)
            return now is None or not now.has_proposed_answer

        if proposed.answered_by == name_of(caller) and not await self._store.wait_until(
            is_over, RESOLVED_WITHIN_S
        ):
            if self._may_be_sent(proposed.id):
                raise WaitTimeout(
                    f"the agent has not confirmed the answer to {proposed.name} yet",
                    Hint("show the outcome: ", Use(LIST_REQUESTS, proposed.name)),
                )
            await durable(self._withdraw)(proposed)
        return answered_by_caller(await self._store.mail.request(proposed.id), caller)

    async def _withdraw(self, proposed: Request) -> None:
        self._sent.pop(proposed.id, None)
        async with self._store.transaction() as tx:
            now = await tx.mail.request(proposed.id)
            is_same = (now.answer, now.answered_by) == (proposed.answer, proposed.answered_by)
            if now.has_proposed_answer and is_same:
                after = tx.mail.change_request(now, answer=None, answered_by=None, reason=None)
                if now.answered_by == BY_RULE:
                    await self._notices.add_for_request(tx, tx.session(now.session_id), after, None)


def asked_key(session: Session, opened: RequestOpened, number: int | None = None) -> str:
    """The key of a request on a link. `number`: of an earlier request with the same key that is closed."""
    again = "" if number is None else str(number)
    return link_key(session.id, str(session.runs), repr(opened.id), opened.tool_use, again)


def with_decisions(opened: RequestOpened) -> RequestOpened:
    """The request with the names of its decisions in its dialog, where they are stored."""
    if opened.dialog.kind is not RequestKind.PERMISSION or not opened.decisions:
        return opened
    names = tuple(decision.name for decision in opened.decisions)
    return replace(opened, dialog=replace(opened.dialog, questions=(Question("", names),)))


def _offered(opened: RequestOpened, name: str) -> OfferedDecision | None:
    return next((decision for decision in opened.decisions if decision.name == name), None)
