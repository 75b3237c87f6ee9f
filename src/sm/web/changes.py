"""Shows browsers the changes of sessions, and takes the comments on them.

Git runs in a short process for each question, as `sm diff` would for the person who started the server. The daemon is
asked before, whether the caller may see the contents of the session. A browser names neither paths nor objects of git:
it names a list of changes that this server has given it, and the number of a file in the list.
"""

import asyncio
import secrets
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeAlias

import orjson
from aiohttp import web

from sm.client.http import TIMEOUT_S, session_path
from sm.core.dataclass import dataclass
from sm.errors import ExternalError, IllegalState, LimitReached, NotPermitted, UsageError, from_wire
from sm.linux.programs import run_program
from sm.web.connections import HEAD_WITHIN_S, unless_lost
from sm.web.daemon_link import DaemonLink
from sm.web.logins import WebLogin, WebScope
from sm.web.message_words import message_words

_WITHIN_S = 75.0
"""More than the process gives itself."""
_GRACE_S = 3.0
_AT_ONCE = 2
_WAITING_MAX = 6
_ANSWER_MAX_BYTES = 32 << 20
_LISTS_MAX = 64
_PROGRAM = "sm.cli.page_changes"
DAEMON_ROUTES = (
    "GET /v1/sessions/{ref}/review",
    "POST /v1/sessions/{ref}/review/drafts",
    "POST /v1/sessions/{ref}/review/discard",
    "POST /v1/sessions/{ref}/review/send",
    "POST /v1/sessions/{ref}/review/deny",
)
"""The routes of the daemon that are called for a browser."""
_BODY_FIELDS: Mapping[str, frozenset[str]] = {
    "drafts": frozenset({"text", "path", "side", "first", "last", "quote", "replaces"}),
    "discard": frozenset({"ids"}),
    "send": frozenset({"ids", "mode", "shown"}),
}

KeepReviewed: TypeAlias = Callable[[str, object], Awaitable[Mapping[str, str]]]
"""Keeps the state that a list of changes shows, by the id of its session and the name of the list."""


@dataclass(frozen=True, slots=True)
class ComparedStates:
    """A list of changes that a browser has got."""

    session_id: str
    base: str
    tree: str


class ChangesPages:
    """The routes of the tab with the changes. `login`: the key of a request's login."""

    def __init__(self, link: DaemonLink, socket_path: str, login: "web.RequestKey[WebLogin]") -> None:
        self._link = link
        self._socket_path = socket_path
        self._login = login
        self._shown: dict[str, ComparedStates] = {}
        """The lists by their random names, the oldest first."""
        self._running = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0

    def add_routes(self, app: web.Application) -> None:
        get, post = app.router.add_get, app.router.add_post
        get("/api/changes/{ref}", self._list, allow_head=False)
        get("/api/changes/{ref}/counts", self._counts, allow_head=False)
        get("/api/changes/{ref}/drafts", self._drafts, allow_head=False)
        get("/api/changes/{ref}/file", self._file, allow_head=False)
        get("/api/changes/{ref}/pictures", self._pictures, allow_head=False)
        post("/api/changes/{ref}/drafts", self._put)
        post("/api/changes/{ref}/discard", self._discard)
        post("/api/changes/{ref}/send", self._send)

    # What a login may look at

    async def _list(self, request: web.Request) -> web.StreamResponse:
        review = await self._review(request)
        since, base = request.query.get("since", "start"), ""
        if since == "review":
            base = next((sent["tree"] for sent in review["rounds"] if sent["tree"]), "")
            if not base:
                raise IllegalState("you have not reviewed this session yet", "look at all changes")
        elif since != "start":
            raise UsageError("since must be start or review")
        task = {"act": "changes", "session": review["session_id"], "base": base}
        head, body = await unless_lost(request, self._ask(task))
        name = secrets.token_urlsafe(16)
        self._shown[name] = ComparedStates(review["session_id"], head["base"], head["tree"])
        while len(self._shown) > _LISTS_MAX:
            del self._shown[next(iter(self._shown))]
        start = orjson.dumps({"shown": name, "review": review})
        return _answer(start[:-1] + b',"changes":' + body + b"}")

    async def _counts(self, request: web.Request) -> web.StreamResponse:
        """The numbers of files and lines, for the request that proposes a completion."""
        review = await self._review(request)
        _, body = await unless_lost(request, self._ask({"act": "counts", "session": review["session_id"]}))
        return _answer(body)

    async def _drafts(self, request: web.Request) -> web.StreamResponse:
        return _json({"drafts": (await self._review(request))["comments"]})

    async def _file(self, request: web.Request) -> web.StreamResponse:
        return await self._of_file(request, "file")

    async def _pictures(self, request: web.Request) -> web.StreamResponse:
        return await self._of_file(request, "pictures")

    async def _of_file(self, request: web.Request, act: Literal["file", "pictures"]) -> web.StreamResponse:
        review = await self._review(request)
        shown = self._known(request.query.get("shown", ""), review["session_id"])
        number = request.query.get("file", "")
        if not (number.isascii() and number.isdecimal() and len(number) < 7):
            raise UsageError("file must be the number of a file")
        whole = request.query.get("whole") == "1"
        task = {"act": act, "file": int(number), "whole": whole, **_state(shown)}
        _, body = await unless_lost(request, self._ask(task))
        return _answer(body)

    async def _review(self, request: web.Request) -> Any:
        """The drafts and rounds of the caller. The daemon refuses callers that may not see the contents."""
        path = session_path(request.match_info["ref"], "/review")
        return await self._link.get(path, login=request[self._login], timeout_s=TIMEOUT_S)

    def _known(self, name: object, session_id: str) -> ComparedStates:
        shown = self._shown.get(name) if isinstance(name, str) else None
        if shown is None or shown.session_id != session_id:
            raise IllegalState("these changes are not up to date any more", "load them again")
        return shown

    async def _ask(self, task: Mapping[str, object]) -> tuple[Mapping[str, Any], bytes]:
        """Let a process do the task. Returns the head of its answer, and the rest. Raises SmError."""
        if self._waiting >= _WAITING_MAX:
            raise LimitReached(f"{_WAITING_MAX} other questions about changes wait", "try again in a moment")
        self._waiting += 1
        try:
            await self._running.acquire()
        finally:
            self._waiting -= 1
        try:
            argv = (sys.executable, "-m", _PROGRAM)
            text = orjson.dumps({"socket": self._socket_path, **task})
            # In `/`, where Python finds no other module of that name than ours.
            done = await run_program(
                argv, text, _WITHIN_S, output_max_bytes=_ANSWER_MAX_BYTES, grace_s=_GRACE_S
            )
        except TimeoutError:
            raise ExternalError(
                f"git did not finish within {_WITHIN_S:g} s", "look at them: sm diff"
            ) from None
        finally:
            self._running.release()
        head, _, body = done.output.partition(b"\n")
        if done.code or not head:
            raise ExternalError(f"the process for the changes ended with exit code {done.code}")
        if len(done.output) >= _ANSWER_MAX_BYTES:
            raise LimitReached("the changes are too large for a page", "look at them: sm diff")
        answer: Mapping[str, Any] = orjson.loads(head)
        if "error" in answer:
            error = answer["error"]
            raise from_wire(error["code"], error["message"], error["hint"])
        return answer, body

    # What a login may do

    async def _put(self, request: web.Request) -> web.StreamResponse:
        return _json(await self._post(request, "drafts", await self._body(request, "drafts")))

    async def _discard(self, request: web.Request) -> web.StreamResponse:
        return _json(await self._post(request, "discard", await self._body(request, "discard")))

    async def _send(self, request: web.Request) -> web.StreamResponse:
        """Keep the state that was reviewed, and send the drafts."""
        body = await self._body(request, "send")
        review = await self._review(request)
        reviewed = await unless_lost(request, self.keep(review["session_id"], body.pop("shown", None)))
        sent = await self._post(request, "send", {**body, **reviewed})
        words = await message_words(self._link, request[self._login], sent)
        return _json({"round": sent["number"], "words": f"Round {sent['number']}: {words}"})

    async def keep(self, session_id: str, name: object) -> Mapping[str, str]:
        """Keep the state that a list shows. Returns the fields of a round that name it. Raises SmError.

        `name`: that of the list, which only a browser has that was allowed to see the changes of the session.
        """
        shown = self._known(name, session_id)
        kept, _ = await self._ask({"act": "keep", **_state(shown)})
        return {"tree": shown.tree, "head": kept["head"], "base": shown.base}

    async def _body(self, request: web.Request, act: str) -> dict[str, object]:
        if not request[self._login].scope.includes(WebScope.ANSWER):
            raise NotPermitted(
                f"this login may not comment: it needs the scope {WebScope.ANSWER}", "sm web link"
            )
        if request.content_type != "application/json":
            raise UsageError("the content must be application/json")
        try:
            async with asyncio.timeout(HEAD_WITHIN_S):
                body = orjson.loads(await request.read())
        except TimeoutError:
            raise web.HTTPRequestTimeout from None
        except ValueError:
            body = None
        if not isinstance(body, dict) or not body.keys() <= _BODY_FIELDS[act]:
            raise UsageError(
                f"the content must be an object with the fields {', '.join(sorted(_BODY_FIELDS[act]))}"
            )
        return body

    async def _post(self, request: web.Request, act: str, body: Mapping[str, object]) -> Any:
        path = session_path(request.match_info["ref"], f"/review/{act}")
        key = secrets.token_hex(16)
        return await self._link.post(path, body, login=request[self._login], key=key, timeout_s=TIMEOUT_S)


def _state(shown: ComparedStates) -> Mapping[str, str]:
    return {"session": shown.session_id, "base": shown.base, "tree": shown.tree}


def _json(value: object) -> web.Response:
    return _answer(orjson.dumps(value))


def _answer(content: bytes) -> web.Response:
    return web.Response(body=content, content_type="application/json")
