"""What every handler of the daemon's HTTP side has: the parts, who calls, answers, and waiting on events."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import orjson
from aiohttp import web

from sm.config import Config
from sm.errors import TerminalError
from sm.identity import Identity
from sm.mailroom import Mailroom
from sm.manager import Manager
from sm.measuring import Measuring
from sm.messages import Messages
from sm.models import Caller, Session
from sm.observer import Observer
from sm.policy import Action, Relation, may
from sm.records import Records
from sm.reports import Reports
from sm.requests import Requests
from sm.revival import Revival
from sm.store import Store
from sm.summary import Summary
from sm.terminals.base import Terminals
from sm.waiting import Waiting
from sm.watcher import Watcher

CALLER = web.RequestKey("caller", Caller)
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
    reports: Reports
    messages: Messages
    requests: Requests
    records: Records
    revival: Revival
    waiting: Waiting
    mailroom: Mailroom
    observer: Observer
    measuring: Measuring
    summary: Summary
    terminals: Terminals
    watcher: Watcher
    identity: Identity
    socket: str
    started_s: float
    """time.monotonic() at the start."""
    trouble: list[str]
    stop: Callable[[], None]


def reads(daemon: Daemon, caller: Caller, session: Session) -> bool:
    """Whether what is said and done in a session is for the caller, who may see that it is there; its own is."""
    viewer = daemon.manager.viewer(caller)
    relation = Relation.OTHER if viewer is None else daemon.manager.family.relation(viewer, session)
    return relation is Relation.SELF or may(caller, Action.READ, relation)


async def last_output(daemon: Daemon, session: Session) -> list[str]:
    """The last lines of its terminal, none where that is gone. For callers who may read the session."""
    try:
        return await daemon.terminals.capture(session.terminal, _LAST_LINES)
    except TerminalError:
        return []


def json_answer(value: object) -> web.Response:
    return web.Response(body=orjson.dumps(value), content_type="application/json")


def connected(request: web.Request) -> bool:
    """Whether somebody is still there to be answered."""
    return request.transport is not None and not request.transport.is_closing()


async def hold(request: web.Request, store: Store, condition: Callable[[], bool], wait_s: float) -> bool:
    """Wait until `condition` holds, asked again after every change; whether it does after `wait_s` at most.

    Raises ConnectionResetError when the caller has gone: nothing may be done in its name any more.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + min(wait_s, WAIT_MAX_S)
    while not condition():
        left = deadline - loop.time()
        if left <= 0:
            return False
        try:
            async with asyncio.timeout(min(left, _LOOK_EVERY_S)):
                await store.changed(condition)
        except TimeoutError:
            if not connected(request):
                raise ConnectionResetError("the caller has gone") from None
    if not connected(request):
        raise ConnectionResetError("the caller has gone")
    return True
