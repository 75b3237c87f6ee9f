"""The routes of messages, inboxes, requests and waits (docs/protocol.md)."""

from collections.abc import Callable
from typing import Any

from aiohttp import web

from sm.api.body import Body, number, read_body, read_key
from sm.api.context import CALLER, WAIT_MAX_S, Daemon, hold, json_answer
from sm.api.views import message_json, request_json
from sm.core.lifecycle import is_ended, reached
from sm.core.messages import Message
from sm.core.models import Session
from sm.core.requests import Request
from sm.core.states import ENDED_OF_ANY_KIND, MessageMode, MessageState, Status
from sm.core.wording import outcome
from sm.errors import IllegalState, NotFound, UsageError
from sm.messaging.messages import BATCH_MAX, Letter
from sm.policy.access import Action
from sm.requests.answers import Verdict
from sm.sessions.waits import For

_LISTED = 50
_LISTED_MAX = 10_000
_WAITED_MAX = 200
_RUNS_WITHIN_S = 5.0
"""With what is waited after that, less than a client waits for an answer."""
_NOT_ARRIVED = frozenset({MessageState.FAILED, MessageState.EXPIRED, MessageState.UNCONFIRMED})


class MailRoutes:
    """`view` shows a session as every other route does, to who has sent the request."""

    def __init__(self, daemon: Daemon, view: Callable[[web.Request, Session], dict[str, Any]]) -> None:
        self._d = daemon
        self._view = view

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/messages", self.send),
            web.get("/v1/messages", self.log),
            web.get("/v1/messages/{id}", self.message),
            web.get("/v1/audience", self.audience),
            web.get("/v1/inbox", self.inbox),
            web.post("/v1/inbox/take", self.take),
            web.post("/v1/inbox/confirm", self.confirm),
            web.post("/v1/wait", self.wait),
            web.post("/v1/wait/heard", self.heard),
            web.get("/v1/requests", self.requests),
            web.post("/v1/requests", self.ask),
            web.get("/v1/requests/{ref}", self.request),
            web.post("/v1/requests/{ref}/answer", self.answer),
            web.post("/v1/requests/{ref}/taken", self.taken),
        ]

    # Messages

    async def send(self, request: web.Request) -> web.Response:
        body = await read_body(request)
        done = await self._d.messages.send(
            request[CALLER],
            body.text("to") or "",
            body.text("text") or "",
            _mode(body),
            body.number("ttl_s"),
            read_key(request, body),
        )
        if isinstance(done, Request):
            return json_answer(_answered(done))
        return json_answer(await self._followed(request, done, body.number("wait_s")))

    async def message(self, request: web.Request) -> web.Response:
        found = await self._d.messages.read(request[CALLER], _id(request))
        return json_answer(await self._followed(request, found, _wait_s(request)))

    async def _followed(self, request: web.Request, message: Message, wait_s: float | None) -> dict[str, Any]:
        """The message once it is final, or as it is after `wait_s`; whoever hears now is not told again."""
        open = self._d.store.mail
        if await hold(request, self._d.store, lambda: message.id not in open.open.messages, wait_s or 0):
            message = await self._d.store.mail.message(message.id)
            if message.state in _NOT_ARRIVED:
                await self._d.messages.heard(request[CALLER], message)
        else:
            message = await self._d.store.mail.message(message.id)
        return message_json(message)

    async def log(self, request: web.Request) -> web.Response:
        caller, reference = request[CALLER], request.query.get("session")
        session = None
        if reference is not None:
            session = self._d.manager.find(caller, reference)
            if session.id != caller.session_id:
                session = self._d.manager.find(caller, reference, Action.READ)
        found = await self._d.messages.log(caller, session, number(request, "limit", _LISTED, _LISTED_MAX))
        return json_answer([message_json(message, text) for message, text in found])

    async def audience(self, request: web.Request) -> web.Response:
        found = self._d.messages.audience(request[CALLER], recursive="recursive" in request.query)
        return json_answer([self._view(request, session) for session in found])

    # The inbox

    async def inbox(self, request: web.Request) -> web.Response:
        found = self._d.messages.waiting(request[CALLER], idle=True)
        limit = number(request, "limit", _LISTED, _LISTED_MAX)
        return json_answer([_letter_json(each) for each in await self._d.messages.letters(found[:limit])])

    async def take(self, request: web.Request) -> web.Response:
        """Hand over what waits; with `wait_s` the first that comes, and nothing when the time is over."""
        body = await read_body(request)
        caller, wait_s = request[CALLER], body.number("wait_s")
        limit = min(int(body.number("limit") or BATCH_MAX), BATCH_MAX)
        idle, key = wait_s is not None, read_key(request, body)
        # What the old process of a restored session has left behind is gone before the new one runs.
        await hold(request, self._d.store, lambda: not self._d.messages.starts_again(caller), _RUNS_WITHIN_S)
        # First of all, because a reader that repeats its question has got no answer to what it took.
        letters = await self._d.messages.take(caller, limit, key, idle=idle)
        if idle and not letters:
            with self._d.waiting.of(caller.session_id, For.MESSAGES):
                await hold(
                    request,
                    self._d.store,
                    lambda: (
                        bool(self._d.messages.waiting(caller, idle=True)) or self._d.messages.is_gone(caller)
                    ),
                    wait_s or 0,
                )
            letters = await self._d.messages.take(caller, limit, key, idle=idle)
        return json_answer([_letter_json(each) for each in letters])

    async def confirm(self, request: web.Request) -> web.Response:
        body = await read_body(request)
        confirmed = await self._d.messages.confirm(request[CALLER], body.numbers("message_ids"))
        return json_answer([message_json(message) for message in confirmed])

    # Waiting for sessions

    async def wait(self, request: web.Request) -> web.Response:
        body = await read_body(request)
        caller = request[CALLER]
        until = body.text("until") or ENDED_OF_ANY_KIND
        if until != ENDED_OF_ANY_KIND and until not in Status.__members__.values():
            raise UsageError(
                f"unknown status {until[:40]}", f"use one of: {ENDED_OF_ANY_KIND}, {', '.join(Status)}"
            )
        references = dict.fromkeys(body.texts("sessions"))
        if len(references) > _WAITED_MAX:
            raise UsageError(f"{len(references)} sessions, at most {_WAITED_MAX} are waited for at once")
        wanted = [self._d.manager.find(caller, reference).id for reference in references]
        if not wanted:
            raise UsageError("no session is named")
        if caller.session_id in wanted:
            raise UsageError("a session cannot wait for itself")
        any_of = body.flag("any")
        with self._d.waiting.of(caller.session_id, For.SESSIONS):
            await hold(
                request,
                self._d.store,
                lambda: (
                    self._verdict(wanted, until, any_of=any_of) is not None
                    or self._d.messages.is_gone(caller)
                ),
                body.number("wait_s") or 0,
            )
        if self._d.messages.is_gone(caller):
            raise IllegalState(
                f"session {caller.session_id} has ended, its process is gone; nobody waits any more"
            )
        sessions = [self._d.store.sessions[s] for s in wanted if s in self._d.store.sessions]
        for session in sessions:
            if is_ended(session.status):
                self._d.mailroom.hold(session.id, caller.session_id)
        verdict = self._verdict(wanted, until, any_of=any_of)
        if verdict is not None:
            self._d.waiting.over(caller.session_id)
        return json_answer({"reached": verdict, "sessions": [self._view(request, s) for s in sessions]})

    def _verdict(self, session_ids: list[str], until: str, *, any_of: bool) -> bool | None:
        """True: it has come; False: it can come no more; None: not yet."""
        sessions = self._d.store.sessions
        found = [reached(sessions[s].status, until) if s in sessions else False for s in session_ids]
        decisive = any_of
        if decisive in found:
            return decisive
        return None if None in found else not decisive

    async def heard(self, request: web.Request) -> web.Response:
        """The answer of a wait has arrived: the endings in it need not be told again."""
        body = await read_body(request)
        await self._d.manager.heard(request[CALLER], body.texts("sessions"))
        return json_answer({})

    # Requests

    def _request(self, request: Request) -> dict[str, Any]:
        session = self._d.store.sessions.get(request.session_id)
        return {**request_json(request), "name": session.display_name if session else None}

    async def requests(self, request: web.Request) -> web.Response:
        limit = number(request, "limit", _LISTED, _LISTED_MAX)
        found = await self._d.requests.listed(request[CALLER], all="all" in request.query, limit=limit)
        reference = request.query.get("session")
        if reference is not None:
            session = self._d.manager.find(request[CALLER], reference)
            found = [r for r in found if r.session_id == session.id]
        return json_answer([self._request(each) for each in found])

    async def ask(self, request: web.Request) -> web.Response:
        body = await read_body(request)
        asked = await self._d.requests.ask(
            request[CALLER],
            body.text("question") or "",
            body.texts("options"),
            body.number("expires_s"),
            read_key(request, body),
        )
        return json_answer(self._request(asked))

    async def request(self, request: web.Request) -> web.Response:
        found = await self._d.requests.find(request[CALLER], request.match_info["ref"])
        caller, open = request[CALLER], self._d.store.mail

        def is_over() -> bool:
            now = open.open.requests.get(found.id)
            return now is None or not now.open

        wait_s = _wait_s(request)
        if wait_s:
            mine = caller.session_id if caller.session_id == found.session_id else None
            with self._d.waiting.of(mine, For.ANSWER):
                answered = await hold(request, self._d.store, is_over, wait_s)
            if answered:
                self._d.waiting.over(mine)
        return json_answer(self._request(await self._d.store.mail.request(found.id)))

    async def answer(self, request: web.Request) -> web.Response:
        body = await read_body(request)
        verdict = Verdict(body.flag("approved"), body.texts("answers"), body.text("message"))
        done = await self._d.requests.answer(
            request[CALLER], request.match_info["ref"], verdict, read_key(request, body)
        )
        return json_answer(self._request(done))

    async def taken(self, request: web.Request) -> web.Response:
        caller = request[CALLER]
        found = await self._d.requests.find(caller, request.match_info["ref"])
        return json_answer(self._request(await self._d.requests.taken(caller, found)))


def _letter_json(letter: Letter) -> dict[str, Any]:
    return {**message_json(letter.message, letter.text), "shown": letter.shown}


def _answered(request: Request) -> dict[str, Any]:
    """A send that answered a question, in the shape of a message."""
    return {
        "message_id": None,
        "session_id": request.session_id,
        "from": request.answered_by,
        "status": MessageState.SUBMITTED,
        "mode": MessageMode.AUTO,
        "evidence": f"answered {request.name}",
        "reason": outcome(request),
        "created_at": request.state_at,
        "submitted_at": request.state_at,
        "acknowledged_at": None,
        "expires_at": None,
        "request_id": request.name,
    }


def _mode(body: Body) -> MessageMode:
    wanted = body.text("mode") or "auto"
    if wanted not in MessageMode.__members__.values():
        raise UsageError(f"unknown mode {wanted[:40]}", f"use one of: {', '.join(MessageMode)}")
    return MessageMode(wanted)


def _id(request: web.Request) -> int:
    text = request.match_info["id"]
    if not text.isdecimal() or len(text) > 18:
        raise NotFound(f"no such message: {text[:40]}", "sm log shows yours")
    return int(text)


def _wait_s(request: web.Request) -> float:
    wait_s: int = number(request, "wait_s", 0, int(WAIT_MAX_S))
    return float(wait_s)
