"""The request as a handler sees it: its caller, the services, the path, and waiting while the caller is connected."""

import asyncio
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import orjson
from aiohttp import web

from sm.api.auth import refused
from sm.api.query import WAIT_MAX_S
from sm.api.views import Views
from sm.core.models import Caller, Session
from sm.errors import RateLimited, SmError, Unauthenticated
from sm.policy.access import Action
from sm.services import Services


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The caller of a request, as the listener identified it, and how long it may stay."""

    caller: Caller
    following: Callable[[], AbstractContextManager[None]]
    """Entered while the request follows events or waits. Raises LimitReached."""
    is_over: Callable[[], bool] = lambda: False
    """Whether the caller has lost its right meanwhile: its process has ended, or another one replaced it."""


CONTEXT = web.RequestKey("context", RequestContext)
_LOOK_EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """The first argument of every handler."""

    services: Services
    views: Views
    http: web.Request

    @property
    def context(self) -> RequestContext:
        return self.http[CONTEXT]

    @property
    def caller(self) -> Caller:
        return self.http[CONTEXT].caller

    @property
    def name(self) -> str:
        """The name in the path: a reference, a slug or a number."""
        (found,) = self.http.match_info.values()
        return found

    def session(self, action: Action = Action.SEE) -> Session:
        """The session that the path names. Raises NotFound; NotPermitted when the caller may not do `action` to it."""
        return self.services.sessions.find(self.caller, self.name, action)

    def connected(self) -> bool:
        """Whether the caller still waits for the answer."""
        transport = self.http.transport
        return transport is not None and not transport.is_closing()

    async def hold(self, condition: Callable[[], bool], wait_s: float) -> bool:
        """Wait until `condition` holds, checked after every change; return whether it does after `wait_s` at most.

        Raises ConnectionResetError when the caller has gone, since nothing may be done in its name any more;
        Unauthenticated when the process whose token it shows has ended; LimitReached when too many wait on its socket.
        """
        if not condition():
            if wait_s <= 0:
                return False
            with self.context.following():
                if not await self.comes(condition, min(wait_s, WAIT_MAX_S)):
                    return False
        if not self.connected():
            raise ConnectionResetError("the caller has gone")
        return True

    async def comes(self, condition: Callable[[], bool], wait_s: float) -> bool:
        """Like `hold`, without counting a follower."""
        loop, store, context = asyncio.get_running_loop(), self.services.store, self.context
        deadline = loop.time() + wait_s
        while not condition():
            left = deadline - loop.time()
            if left <= 0:
                return False
            await store.changed(lambda: condition() or context.is_over(), min(left, _LOOK_EVERY_S))
            if context.is_over():
                raise refused()
            if not self.connected():
                raise ConnectionResetError("the caller has gone")
        return True


def json_answer(value: object) -> web.Response:
    return web.Response(body=orjson.dumps(value), content_type="application/json")


def refusal(error: SmError, status: int | None = None) -> web.Response:
    """The answer for an error; `status` where HTTP has a status of its own for the error."""
    body: dict[str, object] = {"code": error.code, "message": _sendable(error.message)}
    body["hint"] = None if error.hint is None else _sendable(error.hint)
    headers = {}
    if isinstance(error, RateLimited):
        # Rounded up, so that whoever comes back then is not early.
        body["retry_after_s"] = math.ceil(error.retry_after_s * 1000) / 1000
        headers["Retry-After"] = str(math.ceil(error.retry_after_s))  # whole seconds (RFC 9110, 10.2.3)
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = "Bearer"  # RFC 9110, 11.6.1
    response = json_answer({"error": body})
    response.headers.update(headers)
    response.set_status(status or error.http_status)
    return response


def _sendable(text: str) -> str:
    """A path or a header may hold bytes that are no text."""
    return text.encode("utf-8", "backslashreplace").decode()
