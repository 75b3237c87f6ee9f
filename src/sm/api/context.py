"""What every handler of the daemon's HTTP side has: the parts, who calls, answers, and waiting on events."""

import asyncio
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass

import orjson
from aiohttp import web

from sm.api.auth import refused
from sm.config import Config
from sm.core.models import Caller, Session
from sm.errors import RateLimited, SmError, TerminalError, Unauthenticated
from sm.messaging.messages import Messages
from sm.messaging.timers import Mailroom
from sm.monitor.observer import Observer
from sm.monitor.processes import Watcher
from sm.monitor.summary import Summary
from sm.monitor.usage import UsageMeter
from sm.policy.access import Action, may
from sm.requests.answers import Requests
from sm.requests.dialogs import Dialogs
from sm.sessions.adopt import Adoptions
from sm.sessions.archive import Records
from sm.sessions.interrupt import Interrupts
from sm.sessions.kill import Kills
from sm.sessions.manager import Manager
from sm.sessions.reports import Reports
from sm.sessions.restore import Revival
from sm.sessions.spawn import Starts
from sm.sessions.waits import Waiting
from sm.sessions.workspaces import Workspaces
from sm.store import Store
from sm.store.audit import Audit
from sm.terminals.base import Terminals

CALLER = web.RequestKey("caller", Caller)


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Visit:
    """Who has come with a request, and for how long it may stay."""

    caller: Caller
    following: Callable[[], AbstractContextManager[None]]
    """To be entered while the request follows events or is held. Raises LimitReached."""
    is_over: Callable[[], bool] = _never
    """Whether the caller has lost its right meanwhile: its process is gone, or another one has its place."""


VISIT = web.RequestKey("visit", Visit)
WAIT_MAX_S = 25.0
"""One request waits no longer: less than a client waits for an answer. Who wants more asks again."""
_LOOK_EVERY_S = 2.0
_LAST_LINES = 50


@dataclass(frozen=True, slots=True)
class Daemon:
    """What the handlers need."""

    config: Config
    store: Store
    manager: Manager
    starts: Starts
    kills: Kills
    reports: Reports
    messages: Messages
    requests: Requests
    dialogs: Dialogs
    records: Records
    revival: Revival
    adoptions: Adoptions
    interrupts: Interrupts
    waiting: Waiting
    workspaces: Workspaces
    mailroom: Mailroom
    observer: Observer
    measuring: UsageMeter
    summary: Summary
    terminals: Terminals
    watcher: Watcher
    audit: Audit
    socket: str
    started_s: float
    """time.monotonic() at the start."""
    trouble: list[str]
    stop: Callable[[], None]


def reads(daemon: Daemon, caller: Caller, session: Session) -> bool:
    """Whether what is said and done in a session is for the caller, who may see that it is there; its own is."""
    standing = daemon.manager.family.standing(daemon.manager.viewer(caller), session)
    return standing.is_self or may(standing, Action.READ)


async def last_output(daemon: Daemon, session: Session) -> list[str]:
    """The last lines of its terminal, none where that is gone. For callers who may read the session."""
    try:
        return await daemon.terminals.capture(session.terminal, _LAST_LINES)
    except TerminalError:
        return []


def json_answer(value: object) -> web.Response:
    return web.Response(body=orjson.dumps(value), content_type="application/json")


def refusal(error: SmError, status: int | None = None) -> web.Response:
    """An error as it is answered; `status` where HTTP has one of its own for it."""
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


def connected(request: web.Request) -> bool:
    """Whether somebody is still there to be answered."""
    return request.transport is not None and not request.transport.is_closing()


async def hold(request: web.Request, store: Store, condition: Callable[[], bool], wait_s: float) -> bool:
    """Wait until `condition` holds, asked again after every change; whether it does after `wait_s` at most.

    Raises ConnectionResetError when the caller has gone: nothing may be done in its name any more; Unauthenticated
    when the process that it shows the token of has; LimitReached when too many wait on its socket.
    """
    if not condition():
        if wait_s <= 0:
            return False
        with request[VISIT].following():
            if not await comes(request, store, condition, min(wait_s, WAIT_MAX_S)):
                return False
    if not connected(request):
        raise ConnectionResetError("the caller has gone")
    return True


async def comes(request: web.Request, store: Store, condition: Callable[[], bool], wait_s: float) -> bool:
    """As `hold`, and without counting a follower."""
    loop, visit = asyncio.get_running_loop(), request[VISIT]
    deadline = loop.time() + wait_s
    while not condition():
        left = deadline - loop.time()
        if left <= 0:
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(min(left, _LOOK_EVERY_S)):
                await store.changed(lambda: condition() or visit.is_over())
        if visit.is_over():
            raise refused()
        if not connected(request):
            raise ConnectionResetError("the caller has gone")
    return True
