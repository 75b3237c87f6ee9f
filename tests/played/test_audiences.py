"""The audience that each operation declares is the truth: every caller calls every operation."""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import pytest
from aiohttp import web

from sm.api.context import RequestContext
from sm.api.sockets import SOCKET_LIMITS, Listener, Site, listen
from sm.client.connection import request
from sm.client.http import new_key
from sm.core.models import OPERATOR, BridgeUser, Caller
from sm.core.states import BridgeLevel, CallerKind
from sm.operations import EventStream, Operation
from sm.operations.access_rules import EVERY_CALLER, READ_ALSO_ITSELF, SEE, Audience, CallerRole
from sm.policy.relations import may, may_at_all, may_for_itself
from sm.wire import encode
from sm.wire_types.session_answers import SessionView
from tests.policy_table import declared_operations
from tests.sim.stage import INSTANCE_CONFIG
from tests.sim.wire import Caller as Requests
from tests.sim.world import World, simulation

pytestmark = pytest.mark.simulation

ITSELF, ABOVE, MATE, FAR = "itself", "above", "mate", "far"
"""Sessions: the target, the one above it, one of its team, and one of another workspace."""
OWNER = Caller(CallerKind.BRIDGE, user=BridgeUser("telegram:1", BridgeLevel.OWNER))
PAIRED = Caller(CallerKind.BRIDGE, user=BridgeUser("telegram:2", BridgeLevel.DIRECT, "one"))
STRANGER = Caller(CallerKind.BRIDGE, user=BridgeUser("telegram:3", BridgeLevel.DIRECT, "two"))
"""Paired with another workspace."""

BODIES: Mapping[str, Mapping[str, Any]] = {
    "spawn": {"agent_type": "Nope", "parent": "{session}"},
    "reparent": {"parent": "{above}"},
    "send": {"to": "{session}", "text": "hello"},
    "wait": {"sessions": ["{session}"], "until": "running"},
    "seen": {"sessions": ["{session}"]},
    "answer": {"approved": True, "answers": ["yes"]},
    "hook": {"emitted_at": "2026-01-01T00:00:00Z", "payload": {}},
    "tools": {"emitted_at": "2026-01-01T00:00:00Z"},
    "dialog": {"emitted_at": "2026-01-01T00:00:00Z", "payload": {}},
    "checkpoint": {"message": "half"},
    "note": {"text": "busy"},
    "ask": {"question": "And now?"},
    "create_workspace": {"slug": "one", "working_dir": "/"},
    "rename": {"name": "other"},
    "draft_comment": {"text": "why?"},
    "adopt": {"pane": "%99"},
    "pause": {"wait_s": 0},
    "change": {"set": "usd=5"},
    "change_of_day": {"set": "usd=5"},
    "writable_paths": {"paths": ["/tmp"]},
}
"""By the name of the operation. Others get no arguments."""
QUERIES = {"search": "?words=hello"}
LAST = ("complete", "pause", "resume", "archive", "unarchive", "restore", "remove", "kill", "stop_daemon")
"""Operations after which the others would find another world."""
OF_CALLER = ("ask", "taken", "me", "hook", "tools", "dialog", "dialog_taken")
"""Operations whose target is the caller, though their paths do not say so."""
HIDDEN = re.compile(r"no such (session|request: r|message|workspace)|`me` means")


@dataclass(frozen=True)
class Scene:
    """One target with all that can be named of it, and a socket that takes its requests for those of any caller."""

    world: World
    names: dict[str, str]
    callers: dict[str, Caller]
    path: str
    current: list[Caller]

    async def ask(self, caller: Caller, operation: Operation) -> tuple[int, str]:
        """The status of the answer and the message of an error."""
        self.current[:] = [caller]
        target = re.sub(r"{(\w+)}", lambda found: self._named(operation, found[1]), operation.path)
        target += QUERIES.get(operation.name, "")
        body = None
        if operation.method == "POST":
            text = json.dumps(BODIES.get(operation.name, {}))
            body = encode(json.loads(re.sub(r"{(session|above)}", lambda m: self.names[m[1]], text)))
        sent = request(operation.method, target, key=new_key(), body=body)
        if isinstance(operation.result, EventStream):
            return await self._begin(sent)
        answer = await Requests(self.world.board, self.path, self.world.shell.pid, {}).carry(sent)
        return answer.status, _message(answer.body) if answer.status >= 400 else ""

    async def _begin(self, sent: bytes) -> tuple[int, str]:
        """As `ask`, of a stream: without its events."""
        reader = asyncio.StreamReader()
        end = self.world.board.connect(self.path, asyncio.StreamReaderProtocol(reader), self.world.shell.pid)
        end.write(sent)
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head.split()[1])
        length = re.search(rb"(?i)content-length: (\d+)", head)
        body = await reader.readexactly(int(length[1])) if length else b""
        end.close()
        return status, _message(body) if status >= 400 else ""

    def _named(self, operation: Operation, parameter: str) -> str:
        """The thing of the target that stands in a path."""
        if operation.path.startswith("/v1/requests/"):
            return self.names["request"]
        return self.names.get(parameter, self.names["session"] if parameter == "ref" else "default")

    def expects(self, caller: Caller, operation: Operation) -> bool:
        """Return whether the declared audience has the caller."""
        if operation.audience is EVERY_CALLER:
            return True
        if operation.path.startswith("/v1/sessions/me/") or operation.name in OF_CALLER:
            is_asker = caller.session_id == self.names["session"]
            return may_for_itself(caller, operation.audience) and (operation.name != "taken" or is_asker)
        if operation.has_target or (
            operation.name in BODIES and "{session}" in json.dumps(BODIES[operation.name])
        ):
            if CallerRole.PAIRED_WITH_IT in operation.audience.members:
                return caller in self.callers.values() and caller not in (STRANGER, self.callers[FAR])
            authorizer = self.world.daemon.parts.base.authorizer
            session = self.world.daemon.store.sessions[self.names["session"]]
            return may(authorizer.tree.relation(authorizer.principal(caller), session), operation.audience)
        return may_at_all(caller, operation.audience)


def _message(body: bytes) -> str:
    return str(json.loads(body)["error"]["message"])


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    async with simulation(INSTANCE_CONFIG.format(more="limits: {spawn_interval_s: 0}")) as world:
        operator = world.operator
        for slug in ("one", "two"):
            (world.home / slug).mkdir()
            await operator.post("/v1/workspaces", {"slug": slug, "working_dir": str(world.home / slug)})

        async def spawn(workspace: str, parent: str | None = None) -> str:
            body = {"agent_type": "Sleeper", "prompt": "x", "workspace": workspace, "parent": parent}
            return str((await operator.post("/v1/sessions", body))["session_id"])

        above, mate, far = await spawn("one"), await spawn("one"), await spawn("two")
        target = await spawn("one", above)
        sessions = {ITSELF: target, ABOVE: above, MATE: mate, FAR: far}
        callers = {name: Caller(CallerKind.SESSION, session) for name, session in sessions.items()}
        callers |= {"operator": OPERATOR, "owner": OWNER, "paired": PAIRED, "stranger": STRANGER}
        names = {"session": target, "above": above, "slug": "one"}
        current = [OPERATOR]
        path = await world.loop.create_task(_serve(world, current), context=world.daemon.life.context)
        found = Scene(world, names, callers, path, current)
        sent = await operator.post("/v1/messages", {"to": target, "text": "hello"})
        names["id"] = str(sent["message_id"])
        ask = next(o for o in declared_operations() if o.name == "ask")
        assert await found.ask(callers[ITSELF], ask) == (200, "")
        ((asked,),) = [await operator.get("/v1/requests")]
        names["request"] = asked["request_id"]
        yield found


async def _serve(world: World, current: list[Caller]) -> str:
    """Serve all routes on one more socket of the daemon, for the caller that the test chooses."""

    async def identify(listener: Listener, request: web.Request) -> RequestContext:
        return RequestContext(current[0], listener.count_follower)

    path = f"{world.paths.socket}.any"
    sock = listen(path)
    world.board.keep(sock, world.daemon.life)
    runner = web.AppRunner(world.daemon.parts.doors.server.app(), shutdown_timeout=2.0)
    await runner.setup()
    await Site(runner, Listener("any", SOCKET_LIMITS, identify), sock).start()
    return path


@contextmanager
def asked_audiences() -> Iterator[set[Audience]]:
    """The audiences of which `may` decides meanwhile."""
    found: set[Audience] = set()

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is may.__code__:
            found.add(frame.f_locals["audience"])

    sys.setprofile(look)
    try:
        yield found
    finally:
        sys.setprofile(None)


def of_answer(operation: Operation) -> Collection[Audience]:
    """The audiences that decide about the answer of many operations: of sessions, and of their fields."""
    has_fields = isinstance(operation.result, type) and issubclass(operation.result, SessionView)
    return (SEE, READ_ALSO_ITSELF) if has_fields else (SEE,)


def in_order(*, streams: bool) -> list[Operation]:
    """Streams are apart: each goes on until its next event, and decides meanwhile."""

    def place(operation: Operation) -> int:
        return LAST.index(operation.name) if operation.name in LAST else -1

    chosen = (o for o in declared_operations() if isinstance(o.result, EventStream) is streams)
    return sorted(chosen, key=place)


@pytest.mark.parametrize("streams", [False, True])
async def test_every_caller_may_call_exactly_the_operations_that_declare_it(streams: bool) -> None:
    wrong, undeclared = list[Any](), list[Any]()
    async with scene() as found:
        for operation in in_order(streams=streams):
            expected = {name: found.expects(caller, operation) for name, caller in found.callers.items()}
            answers = {}
            with asked_audiences() as audiences:
                for name in sorted(found.callers, key=expected.__getitem__):
                    status, message = await found.ask(found.callers[name], operation)
                    is_refused = status == 403 or (status == 404 and HIDDEN.match(message) is not None)
                    answers[name] = (not is_refused, status, message)
            wrong += [
                (operation.name, name, *answers[name])
                for name in found.callers
                if answers[name][0] is not expected[name]
            ]
            more = audiences - {operation.audience, *operation.rules, *of_answer(operation)}
            undeclared += [(operation.name, audience.name) for audience in more]
    assert wrong == [], "\n".join(map(str, wrong))
    if not streams:
        assert undeclared == [], "\n".join(map(str, undeclared))
