"""Asks and answers requests; the first answer wins."""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import field

from sm.core.dataclass import dataclass
from sm.core.labels import short_label
from sm.core.models import Caller, RequestKey, Session, Signal
from sm.core.reference import bare, request_number
from sm.core.requests import Answer, Question, Request
from sm.core.states import RequestKind, RequestState, SignalKind
from sm.core.text import MESSAGE_MAX, REPORT_MAX, validate_text
from sm.core.timestamps import later
from sm.core.wording import outcome
from sm.errors import IllegalState, NotFound, UsageError
from sm.operations.access_rules import REPORT
from sm.operations.hints import Hint, Use
from sm.operations.request_operations import (
    ANSWER,
    ANSWER_SETUP,
    APPROVE,
    DENY,
    LIST_REQUESTS,
    SEE_REQUESTS,
    SEE_REQUESTS_OF,
)
from sm.policy.relations import Principal, is_unrestricted, may
from sm.requests.completions import answer_completion, check_open
from sm.requests.dialogs import Dialogs
from sm.requests.setup import SetupDialogs
from sm.requests.terminal_dialogs import only_at_terminal
from sm.sessions.authorizer import Authorizer
from sm.sessions.reports import Reports, check_setup_is_over
from sm.state.notices import Notices
from sm.state.request_steps import (
    EXPIRES_S,
    OPEN_MAX,
    NewRequest,
    finish_request,
    open_of,
    open_request,
    send_outcome,
    too_late,
)
from sm.store import Store, Transaction
from sm.store.history import may_be_below

_OPTIONS_MAX = 20
_OPTION_MAX = 200
_NUMBER_MAX = 6
"""Digits of a reference that is taken for a request without its r."""


@dataclass(frozen=True, slots=True)
class RequestReply:
    """A reply to a request. `answers` is for questions, `approved` for other requests."""

    approved: bool
    answers: tuple[str, ...] = ()
    message: str | None = None
    shown: str | None = None
    """The digest of the request that the caller has seen, or None if the caller did not say."""


Answerer = Callable[[Transaction, Caller, Request, Answer], Awaitable[None]]
"""Gets the closed request with its answer."""


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    _store: Store
    _authorizer: Authorizer
    _notices: Notices
    _reports: Reports
    _dialogs: Dialogs
    _setup: SetupDialogs
    answerers: dict[RequestKind, Answerer] = field(init=False, default_factory=dict)
    """Carry out the answer to a request of that kind, in its transaction."""

    async def ask(
        self,
        caller: Caller,
        question: str,
        options: Sequence[str],
        expires_s: float | None,
        key: RequestKey | None,
    ) -> Request:
        """Open a question of the calling session to its parent or the operator."""
        session = self._authorizer.find(caller, "me", REPORT)
        words = validate_text(question, "question", REPORT_MAX)
        if not words.strip():
            raise UsageError("the question is empty")
        if len(options) > _OPTIONS_MAX:
            raise UsageError(f"too many options: {len(options)}, at most {_OPTIONS_MAX} are allowed")
        choices = tuple(validate_text(option, "option", _OPTION_MAX, one_line=True) for option in options)
        asked = NewRequest(RequestKind.QUESTION, (Question(words, choices),))
        async with self._store.transaction(caller, key) as tx:
            if tx.replayed is not None:
                return await tx.mail.request(int(tx.replayed))
            if tx.session(session.id).exit is not None:
                raise IllegalState(
                    f"session {short_label(session)} has ended ({session.status}): it cannot ask questions"
                )
            check_setup_is_over(tx, session)
            if len(open_of(tx.mail.open.requests, session.id, list(RequestKind))) >= OPEN_MAX:
                raise IllegalState(
                    f"session {short_label(session)} already has {OPEN_MAX} open requests",
                    Hint(Use(LIST_REQUESTS)),
                )
            expires_at = later(tx.now, EXPIRES_S if expires_s is None else expires_s)
            request = await open_request(tx, self._notices, tx.session(session.id), asked, tx.now, expires_at)
            tx.remember(str(request.id))
        return request

    async def list_requests(self, caller: Caller, *, all: bool, limit: int) -> list[Request]:
        """The open requests that the caller may see, oldest first; with `all` the newest `limit` requests."""
        if not all:
            requests = self._store.mail.open.requests.values()
            return [r for r in requests if r.open and self._may_see(caller, r)]
        principal = self._authorizer.principal(caller)
        if is_unrestricted(caller):
            return await self._store.mail.requests(limit)
        near: Iterable[Session] = self._store.sessions.values()
        if isinstance(principal, Session):
            near = [principal, *self._authorizer.tree.descendants(principal.id)]
        past = await self._store.history.ids(may_be_below(principal))
        ids = [*(s.id for s in near if self._may_answer(principal, s)), *past]
        return await self._store.mail.requests(limit, ids)

    def may_see_of(self, caller: Caller, session: Session) -> bool:
        """True when the caller may see and answer the requests of a visible session."""
        return self._may_answer(self._authorizer.principal(caller), session)

    def _may_see(self, caller: Caller, request: Request) -> bool:
        principal = self._authorizer.principal(caller)
        session = self._store.sessions.get(request.session_id)
        if session is None:
            return is_unrestricted(caller)
        return self._may_answer(principal, session)

    def _may_answer(self, principal: Principal, session: Session) -> bool:
        relation = self._authorizer.tree.relation(principal, session)
        return may(relation, SEE_REQUESTS_OF)

    async def find(self, caller: Caller, reference: str) -> Request:
        """The request with the id `reference`, such as `r57`. Raises NotFound, also for a request that is hidden."""
        number = request_number(reference)
        if number is None:
            raise NotFound(f"no such request: {reference[:40]}", SEE_REQUESTS)
        request = await self._store.mail.request(number)
        if not self._may_see(caller, request):
            raise NotFound(f"no such request: {request.name}", SEE_REQUESTS)
        return request

    async def answer(
        self, caller: Caller, reference: str, reply: RequestReply, key: RequestKey | None
    ) -> Request:
        """Answer the request that `reference` names: its id, or a session with exactly one open request.

        The first answer wins. Returns when a waiting hook has taken the answer.

        Raises IllegalState when the request is closed (the error names its outcome), when no hook takes the answer,
        or when the session does not have exactly one open request; UsageError when the answer does not fit.
        """
        request_id, session_id, kind = await self._resolve(caller, reference, reply)
        is_setup = kind is RequestKind.SETUP
        session = self._authorizer.find(caller, session_id, ANSWER_SETUP if is_setup else ANSWER.audience)
        await self._dialogs.refresh(request_id)
        async with self._store.transaction(caller, key) as tx:
            request = await tx.mail.request(request_id)
            if tx.replayed is None:
                check_open(request, reply.shown)
                request = await self._carry_out(tx, tx.session(session.id), request, reply, caller)
                tx.remember(request.name)
        return await (self._setup.wait if is_setup else self._dialogs.wait_until_taken)(request, caller)

    async def _resolve(
        self, caller: Caller, reference: str, reply: RequestReply
    ) -> tuple[int, str, RequestKind]:
        """The id of the request that `reference` names, the id of its session, and its kind."""
        if request_number(reference) is not None:
            request = await self.find(caller, reference)
            if request.session_id not in self._store.sessions:
                raise too_late(request)
            return request.id, request.session_id, request.kind
        try:
            session = self._authorizer.find(caller, reference, ANSWER.audience)
        except NotFound:
            if not reference.isdecimal() or len(reference) > _NUMBER_MAX:
                raise
            # Messages have plain numbers, requests have not.
            raise NotFound(
                f"no such session: {reference}", f"a request has an r before its number: r{reference}"
            ) from None
        requests = open_of(self._store.mail.open.requests, session.id, list(RequestKind))
        has_answers = bool(reply.answers)
        fitting = [r for r in requests if (r.kind is RequestKind.QUESTION) is has_answers] or requests
        if len(fitting) != 1:
            names = ", ".join(r.name for r in fitting)
            listed = f"{len(fitting) or 'no'} open requests{f': {names}' if names else ''}"
            raise IllegalState(
                f"session {short_label(session)} has {listed}",
                f"choose one, such as {fitting[0].name}" if fitting else SEE_REQUESTS,
            )
        return fitting[0].id, session.id, fitting[0].kind

    async def _carry_out(
        self, tx: Transaction, session: Session, request: Request, reply: RequestReply, caller: Caller
    ) -> Request:
        if request.kind is RequestKind.DIALOG:
            raise only_at_terminal(session, request)
        message = None if reply.message is None else validate_text(reply.message, "message", REPORT_MAX)
        if request.kind is RequestKind.QUESTION:
            if reply.approved and not reply.answers:
                raise UsageError(
                    f"request {request.name} is a question: it needs an answer",
                    Hint(Use(ANSWER, request.name, "TEXT")),
                )
            answers = resolve_options(request, reply.answers) if reply.answers else ()
            answer = Answer(bool(answers), answers, message)
            return await decide(tx, self._dialogs, session, request, answer, caller)
        if reply.answers and request.decisions:
            (name,) = resolve_options(request, reply.answers)
            approves = bool(self._dialogs.links.decision(request, name).approves)
            return await decide(
                tx, self._dialogs, session, request, Answer(approves, (name,), message), caller
            )
        if reply.answers:
            raise UsageError(
                f"request {request.name} is not a question",
                Hint(Use(APPROVE, request.name), ", or: ", Use(DENY, request.name)),
            )
        answer = Answer(reply.approved, (), message)
        if request.kind is RequestKind.SETUP:
            return await self._setup.answer(tx, session, request, answer, caller)
        answerer = self.answerers.get(request.kind)
        if answerer is not None:
            done = await finish_request(
                tx, session, request, tx.now, **_decided(caller, answer), taken_at=tx.now
            )
            await answerer(tx, caller, done, answer)
            return done
        if request.kind is not RequestKind.COMPLETION:
            return await decide(tx, self._dialogs, session, request, answer, caller)
        done = await answer_completion(tx, session, request, answer, caller)
        if reply.approved:
            reason = f"{caller} approved it ({request.name})"
            message = request.text or None
            signal = Signal(SignalKind.REPORTED_COMPLETED, "approval", reason, tx.now, message=message)
            await self._reports.complete_session(tx, session.id, signal)
        else:
            send_outcome(tx, done, f"your completion ({done.name}) was {outcome(done)}")
        return done

    async def confirm_answer(self, caller: Caller, request: Request) -> Request:
        """Record that the asking session has the answer. Idempotent. Raises NotFound for another session's request."""
        if request.session_id != caller.session_id:
            raise NotFound(f"no such request: {request.name}", SEE_REQUESTS)
        async with self._store.transaction() as tx:
            now = await tx.mail.request(request.id)
            if now.unclaimed:
                now = tx.mail.change_request(now, taken_at=tx.now)
        return now


def resolve_options(request: Request, answers: Sequence[str]) -> tuple[str, ...]:
    """The answers, with the number of an option, or its text in another case, replaced by the option.

    For a multiple choice, numbers and texts may be listed with commas. Any other answer is a free text. Raises
    UsageError for answers that do not fit the questions.
    """
    count = len(request.questions)
    if len(answers) != count:
        are = "is" if len(answers) == 1 else "are"
        raise UsageError(
            f"request {request.name} has {count} question{'s' if count != 1 else ''}, "
            f"and {len(answers)} {are} answered",
            Hint(Use(ANSWER, request.name, *["TEXT"] * count)),
        )
    result = []
    for question, answer in zip(request.questions, answers, strict=True):
        words = validate_text(answer, "answer", MESSAGE_MAX)
        if not words.strip():
            raise UsageError("the answer is empty")
        named = _options_by_name(question)
        _check_numbers(request, question, words)
        option = named.get(words) or named.get(_plain(words)) or _named_option(words, named)
        several = _parse_list(words, named) if option is None and question.multiple else None
        result.append(option or several or words)
    return tuple(result)


_NUMBERS = re.compile(r"[0-9]{1,2}(\s*,\s*[0-9]{1,2})*")


def _check_numbers(request: Request, question: Question, words: str) -> None:
    """Raise UsageError for the number of a missing option, unless the question itself contains numbers."""
    if not question.options or not _NUMBERS.fullmatch(words.strip()):
        return
    if any(character.isdigit() for character in "".join((question.question, *question.options))):
        return
    numbers = words.split(",")
    if len(numbers) > 1 and not question.multiple:
        raise UsageError(
            f"request {request.name} accepts only one option",
            Hint(Use(ANSWER, request.name, numbers[0].strip())),
        )
    for number in numbers:
        if not 1 <= int(number) <= len(question.options):
            raise UsageError(
                f"request {request.name} has no option {number.strip()}, only 1 to {len(question.options)}",
                Hint(
                    "show the options: ",
                    Use(LIST_REQUESTS, request.name),
                    "; a free answer must contain a word",
                ),
            )


_OPTION = re.compile(r"(?:option\s+)?([0-9]{1,2})(?:[.):]\s*(.*))?", re.IGNORECASE | re.DOTALL)


def _named_option(words: str, named: Mapping[str, str]) -> str | None:
    """Find the option in `"blue".`, `option 2` or `2. blue`. Returns None for another text."""
    inner = bare(bare(words).removesuffix("."))
    found = _OPTION.fullmatch(inner)
    if found is None:
        return named.get(_plain(inner))
    option = named.get(str(int(found[1])))
    is_same = not found[2] or (option is not None and _plain(found[2]) == _plain(option))
    return option if is_same else None


def _plain(words: str) -> str:
    return words.strip().casefold()


def _options_by_name(question: Question) -> dict[str, str]:
    """The options by text, exact or folded, and by number. A number wins over an option with that text."""
    by_words = {_plain(option): option for option in reversed(question.options)}
    exactly = {option: option for option in question.options}
    return by_words | exactly | {str(n): option for n, option in enumerate(question.options, 1)}


_LISTED_MAX = 100
"""The most options of a question, and the most entries of a list, that are parsed: more would take too long."""
_BETWEEN = re.compile(r"[\s,]*")
_END = re.compile(r"\s*(?:,|\Z)")


def _parse_list(words: str, named: Mapping[str, str]) -> str | None:
    """The options that `words` lists, joined by `, `; None if an entry is no option.

    The text of an option may contain commas, so the longest match wins.
    """
    keys = sorted((key for key in named if key and key == _plain(key)), key=len, reverse=True)
    if len(keys) > 2 * _LISTED_MAX:  # two keys for each option
        return None
    rest = _plain(words)
    chosen: dict[str, None] = {}
    at = _skip_separator(rest, 0)
    for _ in range(_LISTED_MAX):
        if at == len(rest):
            return ", ".join(chosen) or None
        key = next((k for k in keys if rest.startswith(k, at) and _END.match(rest, at + len(k))), None)
        if key is None:
            return None
        chosen[named[key]] = None
        at = _skip_separator(rest, at + len(key))
    return None


def _skip_separator(words: str, at: int) -> int:
    match = _BETWEEN.match(words, at)
    return at if match is None else match.end()


async def decide(
    tx: Transaction, dialogs: Dialogs, session: Session, request: Request, answer: Answer, caller: Caller
) -> Request:
    """Answer the request, or propose the answer to the hook or the link that waits for it."""
    if request.hook is not None:
        return dialogs.propose_answer(tx, session, request, answer, caller)
    return await finish_request(tx, session, request, tx.now, **_decided(caller, answer))


def _decided(caller: Caller, answer: Answer) -> dict[str, object]:
    return {"state": RequestState.ANSWERED, "answer": answer, "answered_by": caller.name}
