"""The link to an app-server that misbehaves, which the real one does not do at will."""

import asyncio
import contextlib
import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from aiohttp import web

from sm.errors import ExternalError, WaitTimeout
from sm.providers.codex.app_server import AppServerLink
from sm.providers.links import (
    ConversationStarted,
    LinkEvent,
    MessageUpdate,
    Receipt,
    StateUnknown,
    StateUpdate,
)
from tests.codex_recordings import only
from tests.played_app_server import PlayedAppServer, listening

pytestmark = pytest.mark.processes

THREAD = "t-1"
ACTIVE = {"type": "active", "activeFlags": []}


class FaultyAppServer:
    """A program that says what a test tells it to, once sm has started a conversation."""

    def __init__(
        self, *texts: str | bytes, silent: frozenset[str] = frozenset(), closes: frozenset[str] = frozenset()
    ) -> None:
        self.texts = texts
        self.silent = silent
        """The methods that get no answer."""
        self.closes = closes
        """The methods at which the program closes the connection."""
        self.connections: asyncio.Queue[int] = asyncio.Queue()
        self.closed: asyncio.Queue[int] = asyncio.Queue()
        """The connections that are over."""
        self.methods: list[str] = []
        self._count = 0

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self._count += 1
        self.connections.put_nowait(self._count)
        async for message in socket:
            frame = json.loads(message.data)
            self.methods.append(frame["method"])
            if frame["method"] in self.closes:
                await socket.close()
                break
            if "id" in frame and frame["method"] not in self.silent:
                thread = {"id": THREAD, "ephemeral": False, "status": {"type": "idle"}}
                await socket.send_str(json.dumps({"id": frame["id"], "result": {"thread": thread}}))
            if frame["method"] == "thread/start":
                for text in self.texts:
                    if isinstance(text, str):
                        await socket.send_str(text)
                    else:
                        await socket.send_bytes(text)
        self.closed.put_nowait(self._count)
        return socket


@pytest.fixture
def directory() -> Iterator[Path]:
    # A path of a socket has at most 107 bytes.
    made = Path(tempfile.mkdtemp(prefix="sm-link-", dir="/tmp"))
    yield made
    shutil.rmtree(made)


@asynccontextmanager
async def running(link: AppServerLink) -> AsyncIterator[None]:
    task = asyncio.create_task(link.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


Linked: TypeAlias = Callable[..., AbstractAsyncContextManager[AppServerLink]]


@pytest.fixture
def linked(directory: Path) -> Linked:
    @asynccontextmanager
    async def link_to(
        server: FaultyAppServer | PlayedAppServer, **limits: Any
    ) -> AsyncIterator[AppServerLink]:
        link = AppServerLink(str(directory / "s"), **limits)
        async with listening(directory / "s", server.serve), running(link):
            yield link

    return link_to


def status(value: object) -> str:
    frame = {"method": "thread/status/changed", "params": {"threadId": THREAD, "status": value}}
    return json.dumps(frame)


async def until_lost(link: AppServerLink) -> StateUnknown:
    while True:
        lost = only(await link.take(), StateUnknown)
        if lost:
            return lost[-1]


async def test_link_waits_for_the_program_when_its_socket_does_not_exist(directory: Path) -> None:
    link = AppServerLink(str(directory / "s"), call_s=0.05)
    async with running(link):
        assert "the link was lost: " in (await until_lost(link)).reason
        with pytest.raises(ExternalError, match="is not connected"):
            await link.open({})
        server = FaultyAppServer()
        async with listening(directory / "s", server.serve):
            await server.connections.get()


async def test_frames_that_are_no_frames_are_ignored(linked: Linked) -> None:
    odd = ("{", "[]", "null", b"\xff\xfe", "[" * 50_000, json.dumps({"id": 7, "result": 1}), '{"method": 3}')
    async with linked(FaultyAppServer(*odd, status(ACTIVE))) as link:
        await link.open({})
        said: list[LinkEvent] = []
        while "works" not in str(said):
            said += await link.take()
        assert not only(said, StateUnknown)


async def test_frame_that_is_too_long_costs_the_connection(linked: Linked) -> None:
    server = FaultyAppServer("x" * 2_000)
    async with linked(server, frame_max=1_000) as link:
        await link.open({})
        assert "exceeds limit 1000" in (await until_lost(link)).reason
        assert await server.connections.get() == 1
        assert await server.connections.get() == 2


async def test_backlog_that_nobody_takes_costs_the_connection_and_no_word(linked: Linked) -> None:
    words = [status(ACTIVE if n % 2 else {"type": "idle"}) for n in range(50)]
    server = FaultyAppServer(*words)
    async with linked(server, backlog_max=20) as link:
        await link.open({})
        assert await server.connections.get() == 1
        said: list[LinkEvent] = []
        while not only(said, StateUnknown):
            said += await link.take()
        assert only(said, StateUnknown)[-1].reason == "the link was lost: nobody took 20 words"
        assert len(only(said, StateUpdate)) >= 18
        assert await server.connections.get() == 2


async def test_link_with_a_full_backlog_does_not_connect_again_before_it_is_taken(linked: Linked) -> None:
    words = [status(ACTIVE if n % 2 else {"type": "idle"}) for n in range(50)]
    server = FaultyAppServer(*words)
    async with linked(server, backlog_max=20, call_s=0.5) as link:
        await link.open({})
        assert await server.closed.get() == 1
        # A connection would be made after 0.1 s.
        with pytest.raises(ExternalError, match="is not connected"):
            await link.open({})
        assert server.connections.qsize() == 1
        await link.take()
        await link.open({})


async def test_program_that_does_not_answer_the_introduction_loses_the_connection(linked: Linked) -> None:
    server = FaultyAppServer(silent=frozenset({"initialize"}))
    async with linked(server, call_s=0.05) as link:
        lost = await until_lost(link)
        assert lost.reason == "the link was lost: codex did not answer initialize within 0.05 s"
        assert await server.connections.get() == 1
        assert await server.connections.get() == 2
    assert "initialized" not in server.methods


async def test_call_has_a_time_limit_and_leaves_the_link(linked: Linked) -> None:
    server = FaultyAppServer(silent=frozenset({"turn/start"}))
    async with linked(server, call_s=0.2) as link:
        await link.open({})
        with pytest.raises(WaitTimeout, match="did not answer turn/start"):
            await link.send("m-1", "text")
        await link.open({})


async def test_message_is_unknown_when_the_link_is_lost_before_the_answer(linked: Linked) -> None:
    async with linked(FaultyAppServer(closes=frozenset({"turn/start"}))) as link:
        await link.open({})
        with pytest.raises(
            ExternalError, match="the link to codex was lost: the program closed the connection"
        ):
            await link.send("m-1", "text")
        said: list[LinkEvent] = []
        while not only(said, MessageUpdate):
            said += await link.take()
        assert [update.receipt for update in only(said, MessageUpdate)] == [Receipt.UNKNOWN]


async def test_link_asks_for_the_items_of_a_conversation_that_a_person_began(linked: Linked) -> None:
    server = PlayedAppServer("new_by_person")
    async with linked(server) as link:
        await link.open({})
        await link.send("m-1", "one")
        said: list[LinkEvent] = []
        while len(started := only(said, ConversationStarted)) < 2:
            said += await link.take()
        assert link.conversation == started[1].id
        resumed = {"threadId": started[1].id, "excludeTurns": True}
        while (await server.received.get()).get("params") != resumed:
            pass
        assert only(said, ConversationStarted) == started


async def test_link_begins_with_the_conversation_that_its_owner_names(directory: Path) -> None:
    server = PlayedAppServer("text_turn")
    link = AppServerLink(str(directory / "s"))
    async with listening(directory / "s", server.serve):
        task = asyncio.create_task(link.run("thread-7"))
        said: list[LinkEvent] = []
        while not only(said, ConversationStarted):
            said += await link.take()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    assert link.conversation == "thread-7"
