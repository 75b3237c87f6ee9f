"""The first argument of handlers: the caller, the path, and waits while the caller is connected."""

import asyncio
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY
from typing import Any, Protocol

import orjson
from aiohttp import web

from sm.api.auth import invalid_token
from sm.api.views import Views
from sm.core.dataclass import dataclass
from sm.core.models import Caller, Session
from sm.errors import AnswersQuestion, DirectoryNotTrusted, RateLimited, SmError, Unauthenticated
from sm.operations.access_rules import SEE, Audience
from sm.operations.arguments import WAIT_MAX_S
from sm.services import Authorizer, Listed, Reads, SeenSessions
from sm.wire import LEFT_HEADER, NEXT_HEADER
from sm.wire_types.fields import ErrorBody, Sparse


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The caller of a request, as the listener identified it, and the limits of its waits."""

    caller: Caller
    following: Callable[[], AbstractContextManager[None]]
    """Entered while the request streams events or waits. Raises LimitReached."""
    is_over: Callable[[], bool] = lambda: False
    """True when the caller's process has ended or was replaced."""


CONTEXT = web.RequestKey("context", RequestContext)
HEADERS = web.RequestKey("headers", dict[str, str])
"""Headers of the answer that the handler adds."""
_LOOK_EVERY_S = 2.0


class ChangeSource(Protocol):
    """Checks a condition after each of its changes."""

    async def wait_until(self, condition: Callable[[], bool], within_s: float | None = None) -> bool:
        """False if the wait timed out."""


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """The first argument of every handler."""

    views: Views
    http: web.Request
    _: KW_ONLY
    authorizer: Authorizer
    seen: SeenSessions
    store: Reads

    @property
    def context(self) -> RequestContext:
        return self.http[CONTEXT]

    @property
    def caller(self) -> Caller:
        return self.http[CONTEXT].caller

    @property
    def name(self) -> str:
        """The name in the path: a reference, a slug or a number."""
        (name,) = self.http.match_info.values()
        return name

    def session(self, audience: Audience = SEE) -> Session:
        """The session that the path names. Raises NotFound; NotPermitted for a caller outside the audience."""
        return self.authorizer.find(self.caller, self.name, audience)

    async def look_at(self, audience: Audience = SEE, *, is_person: bool = True) -> Session:
        """Return the named session, as `session` does, for an act by which the operator has seen it.

        `is_person`: False for a read of a program.
        """
        session = self.session(audience)
        if is_person:
            await self.seen.look(self.caller, [session])
        return session

    def page(self, listed: Listed) -> list[Session]:
        """The sessions of a page. The headers of the answer say where the next one begins."""
        if listed.next is not None:
            self.http[HEADERS] = {NEXT_HEADER: listed.next, LEFT_HEADER: str(listed.left)}
        return listed.sessions

    def is_connected(self) -> bool:
        """True while the caller waits for the answer."""
        transport = self.http.transport
        return transport is not None and not transport.is_closing()

    async def long_poll(
        self, condition: Callable[[], bool], wait_s: float, *, most_s: float = WAIT_MAX_S
    ) -> bool:
        """Wait until `condition`, checked after every change, holds; return False after `wait_s`, at most `most_s`.

        Raises ConnectionResetError when the caller has gone, so that nothing is done in its name; Unauthenticated
        when the process of its token has ended; LimitReached when too many requests wait on its socket.
        """
        if not condition():
            if wait_s <= 0:
                return False
            with self.context.following():
                if not await self.wait_until(condition, min(wait_s, most_s)):
                    return False
        if not self.is_connected():
            raise ConnectionResetError("the caller has gone")
        return True

    async def wait_until(
        self, condition: Callable[[], bool], wait_s: float, source: ChangeSource | None = None
    ) -> bool:
        """As `long_poll`, but the wait does not count as a held request.

        `source`: checks the condition after each change, or after every commit if None.
        """
        loop, source, context = asyncio.get_running_loop(), source or self.store, self.context
        deadline = loop.time() + wait_s
        while not condition():
            left = deadline - loop.time()
            if left <= 0:
                return False
            await source.wait_until(lambda: condition() or context.is_over(), min(left, _LOOK_EVERY_S))
            if context.is_over():
                raise invalid_token()
            if not self.is_connected():
                raise ConnectionResetError("the caller has gone")
        return True


def json_answer(value: object, status: int = 200) -> web.Response:
    if isinstance(value, Sparse):
        value = value.as_json()
    elif isinstance(value, list) and value and isinstance(value[0], Sparse):
        value = [item.as_json() for item in value]
    return web.Response(body=orjson.dumps(value), status=status, content_type="application/json")


def refusal(error: SmError, status: int | None = None) -> web.Response:
    """The answer for an error; `status` replaces the error's own HTTP status."""
    hint = None if error.hint is None else _sendable(error.hint)
    more, headers = dict[str, Any](), {}
    if isinstance(error, RateLimited):
        # Rounded up, so that a retry at that time is not too early.
        more["retry_after_s"] = math.ceil(error.retry_after_s * 1000) / 1000
        headers["Retry-After"] = str(math.ceil(error.retry_after_s))  # whole seconds (RFC 9110, 10.2.3)
    if isinstance(error, DirectoryNotTrusted):
        more["directory"] = _sendable(error.directory)
    body = ErrorBody(error.code, _sendable(error.message), hint, **more).as_json()
    if isinstance(error, AnswersQuestion):
        body["request_id"] = error.request_id
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = "Bearer"  # RFC 9110, 11.6.1
    response = json_answer({"error": body})
    response.headers.update(headers)
    response.set_status(status or error.http_status)
    return response


def _sendable(text: str) -> str:
    """Escape bytes of a path or a header that are not UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()
