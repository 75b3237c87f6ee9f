"""Requests: what sessions ask, who answers, and that the first answer wins (design section 6)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sm import recall
from sm.asking import Asked, open_of, open_request, settle
from sm.errors import IllegalState, NotFound, UsageError
from sm.manager import Manager
from sm.models import (
    SM_ITSELF,
    Answer,
    Caller,
    Message,
    MessageMode,
    MessageState,
    Question,
    Request,
    RequestKey,
    RequestKind,
    RequestState,
    Session,
    Signal,
    SignalKind,
)
from sm.policy import Action, may
from sm.reports import Reports
from sm.store import Store, Transaction
from sm.text import MESSAGE_MAX, REPORT_MAX, accepted, quoted
from sm.views import later
from sm.wording import outcome

EXPIRES_S = 24 * 3600.0
_OPTIONS_MAX = 20
_OPTION_MAX = 200
_OPEN_MAX = 50
_NAME = re.compile(r"r([1-9][0-9]{0,17})")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What somebody says to a request. `answers` for questions, `approved` for the rest."""

    approved: bool
    answers: tuple[str, ...] = ()
    message: str | None = None


class Requests:
    """The use cases of requests."""

    def __init__(self, store: Store, manager: Manager, reports: Reports) -> None:
        self._store = store
        self._manager = manager
        self._reports = reports

    async def ask(
        self,
        caller: Caller,
        question: str,
        options: Sequence[str],
        expires_s: float | None,
        key: RequestKey | None,
    ) -> Request:
        """The calling session asks its parent, or the operator."""
        session = self._manager.find(caller, "me", Action.REPORT)
        words = accepted(question, "question", REPORT_MAX)
        if not words.strip():
            raise UsageError("the question is empty")
        if len(options) > _OPTIONS_MAX:
            raise UsageError(f"{len(options)} options, at most {_OPTIONS_MAX} are allowed")
        choices = tuple(accepted(option, "option", _OPTION_MAX, one_line=True) for option in options)
        asked = Asked(RequestKind.QUESTION, (Question(words, choices),))
        at = self._manager.now()

        async def unit(tx: Transaction) -> Request:
            earlier = await recall.recalled(tx, caller, key)
            if earlier is not None:
                return await tx.mail.request(int(earlier))
            if tx.session(session.id).exit is not None:
                raise IllegalState(f"session {session.id} has ended, its process is gone")
            if len(open_of(tx.mail.open.requests, session.id, list(RequestKind))) >= _OPEN_MAX:
                raise IllegalState(f"session {session.id} has {_OPEN_MAX} open requests already")
            expires_at = later(at, EXPIRES_S if expires_s is None else expires_s)
            request = await open_request(
                tx, self._manager.notices, tx.session(session.id), asked, at, expires_at
            )
            await recall.remember(tx, caller, key, str(request.id), at)
            return request

        return await self._store.write(unit)

    async def listed(self, caller: Caller, *, all: bool, limit: int) -> list[Request]:
        """Those that the caller may see, oldest first: the open ones, or with `all` the newest `limit`."""
        if not all:
            found = self._store.mail.open.requests.values()
            return [r for r in found if r.open and self._sees(caller, r)]
        viewer = self._manager.viewer(caller)
        if viewer is None:
            return await self._store.mail.requests(limit)
        near = [viewer, *self._manager.family.descendants(viewer.id)]
        return await self._store.mail.requests(limit, [s.id for s in near if self._hears(viewer, s)])

    def _sees(self, caller: Caller, request: Request) -> bool:
        viewer = self._manager.viewer(caller)
        session = self._store.sessions.get(request.session_id)
        if session is None:
            return viewer is None
        return self._hears(viewer, session)

    def _hears(self, viewer: Session | None, session: Session) -> bool:
        standing = self._manager.family.standing(viewer, session)
        return standing.itself or may(standing, Action.ANSWER)

    async def find(self, caller: Caller, reference: str) -> Request:
        """`r57` as the caller may see it. Raises NotFound."""
        name = _NAME.fullmatch(reference.lower())
        if name is None:
            raise NotFound(f"no such request: {reference[:40]}", "sm requests")
        request = await self._store.mail.request(int(name[1]))
        if not self._sees(caller, request):
            raise NotFound(f"no such request: {request.name}", "sm requests")
        return request

    async def answer(
        self, caller: Caller, reference: str, verdict: Verdict, key: RequestKey | None
    ) -> Request:
        """Answer `r57`, or the one open request of a session. The first answer wins.

        Raises IllegalState when it is open no more (saying what became of it), or when a session has none or
        several open ones; UsageError when the answer does not fit the question.
        """
        request_id, session_id = await self._meant(caller, reference, verdict)
        session = self._manager.find(caller, session_id, Action.ANSWER)
        at = self._manager.now()

        async def unit(tx: Transaction) -> Request:
            request = await tx.mail.request(request_id)
            if await recall.recalled(tx, caller, key) is not None:
                return request
            if not request.open:
                raise IllegalState(
                    _too_late(request), f"sm requests --all shows what became of {request.name}"
                )
            done = await self._carry_out(tx, tx.session(session.id), request, verdict, caller, at)
            await recall.remember(tx, caller, key, request.name, at)
            return done

        return await self._store.write(unit)

    async def _meant(self, caller: Caller, reference: str, verdict: Verdict) -> tuple[int, str]:
        """(request id, session id) of what `reference` names."""
        name = _NAME.fullmatch(reference.lower())
        if name is not None:
            request = await self.find(caller, reference)
            return request.id, request.session_id
        session = self._manager.find(caller, reference, Action.ANSWER)
        kinds = (
            [RequestKind.QUESTION]
            if verdict.answers
            else [k for k in RequestKind if k != RequestKind.QUESTION]
        )
        found = open_of(self._store.mail.open.requests, session.id, list(RequestKind))
        fitting = [r for r in found if r.kind in kinds] or found
        if len(fitting) != 1:
            names = ", ".join(r.name for r in fitting)
            raise IllegalState(
                f"session {session.id} has {len(fitting) or 'no'} open requests{f': {names}' if names else ''}",
                "name one of them" if fitting else "sm requests",
            )
        return fitting[0].id, session.id

    async def _carry_out(
        self, tx: Transaction, session: Session, request: Request, verdict: Verdict, caller: Caller, at: str
    ) -> Request:
        message = None if verdict.message is None else accepted(verdict.message, "message", REPORT_MAX)
        if request.kind is RequestKind.QUESTION:
            if verdict.approved and not verdict.answers:
                raise UsageError(
                    f"{request.name} is a question, not something to approve",
                    f"sm answer {request.name} TEXT",
                )
            answers = chosen(request, verdict.answers) if verdict.answers else ()
            return await settle(
                tx, session, request, at, **_decided(caller, Answer(bool(answers), answers, message))
            )
        if verdict.answers:
            raise UsageError(
                f"{request.name} is no question", f"sm approve {request.name}, or: sm deny {request.name}"
            )
        answer = Answer(verdict.approved, (), message)
        if request.kind is not RequestKind.COMPLETION:
            return await settle(tx, session, request, at, **_decided(caller, answer))
        done = await settle(tx, session, request, at, **_decided(caller, answer), taken_at=at)
        if verdict.approved:
            said = request.words or None
            reason = f"{caller} approved it ({request.name})"
            signal = Signal(SignalKind.REPORTED_COMPLETED, "approval", reason, at, message=said)
            await self._reports.completed(tx, session.id, signal)
        else:
            tell(tx, done, f"your completion ({done.name}) was {outcome(done)}", at)
        return done

    async def taken(self, caller: Caller, request: Request) -> Request:
        """The session that asked has got the answer. Raises IllegalState when it got it otherwise before."""
        at = self._manager.now()

        async def unit(tx: Transaction) -> Request:
            now = await tx.mail.request(request.id)
            return tx.mail.change_request(now, taken_at=at) if now.untold else now

        if request.session_id != caller.session_id:
            raise NotFound(f"no such request: {request.name}", "sm requests")
        return await self._store.write(unit)


def chosen(request: Request, answers: Sequence[str]) -> tuple[str, ...]:
    """The answers, where one is the number of an option or its words in another case as the option itself."""
    if len(answers) != len(request.questions):
        raise UsageError(
            f"{request.name} asks {len(request.questions)} questions, and {len(answers)} are answered"
        )
    found = []
    for question, answer in zip(request.questions, answers, strict=True):
        words = accepted(answer, "answer", MESSAGE_MAX)
        if not words.strip():
            raise UsageError("the answer is empty")
        by_number = {str(n): option for n, option in enumerate(question.options, 1)}
        by_words = {option.casefold(): option for option in question.options}
        plain = words.strip()
        found.append(by_number.get(plain) or by_words.get(plain.casefold()) or words)
    return tuple(found)


async def answer_text(
    tx: Transaction, session: Session, request: Request, text: str, caller: Caller, at: str
) -> Request:
    """A text that was sent to a session answers its one open question."""
    return await settle(tx, session, request, at, **_decided(caller, Answer(True, chosen(request, [text]))))


def tell(tx: Transaction, request: Request, text: str, at: str) -> None:
    """Send the session what became of its request as a message: nobody waits for it."""
    message = Message(
        id=tx.mail.new_id("messages"),
        session_id=request.session_id,
        sender=request.answered_by or SM_ITSELF,
        mode=MessageMode.AUTO,
        state=MessageState.QUEUED,
        created_at=at,
        state_at=at,
    )
    tx.mail.add_message(message, text)


def _decided(caller: Caller, answer: Answer) -> dict[str, object]:
    who = caller.session_id or "operator"
    return {"state": RequestState.ANSWERED, "answer": answer, "answered_by": who}


def _too_late(request: Request) -> str:
    match request.state:
        case RequestState.ANSWERED:
            said = quoted(outcome(request), 200)
            return f"{request.name} was answered by {request.answered_by} at {request.state_at}: {said}"
        case RequestState.EXPIRED:
            return f"{request.name} expired at {request.state_at}"
        case _:
            return f"{request.name} is {request.state} since {request.state_at}: {request.reason or '-'}"
