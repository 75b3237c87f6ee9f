"""An app-server of codex, played from a recording, over a real Unix socket.

The recording is a playbook. Each line `out` waits for a frame of sm with the same method, or for an answer; then the
lines `in` that follow are sent, with the ids that sm has chosen. The introduction, `thread/resume`, `thread/turns/list`
and `thread/items/list` may come at any time: the answer is made from the frames that were sent, and open requests are
sent again, as the real program does.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web

from tests.codex_recordings import Line, lines_of

Frame = dict[str, Any]


class PlayedAppServer:
    """The program. Its state outlives a connection."""

    def __init__(self, name: str) -> None:
        self._lines: list[Line] = [line for line in lines_of(name) if line.dir != "truth"]
        self._ids: dict[str, str] = {}
        """The ids of messages in the recording, and those that sm has chosen for them."""
        self._thread = ""
        self._status: Frame = {"type": "idle"}
        self._turn: Frame | None = None
        self._items: list[tuple[str, Frame]] = []
        self._requests: dict[int, Frame] = {}
        self.received: asyncio.Queue[Frame] = asyncio.Queue()

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(max_msg_size=0)
        await socket.prepare(request)
        async for message in socket:
            if message.type is WSMsgType.TEXT:
                frame: Frame = json.loads(message.data)
                self.received.put_nowait(frame)
                await self.take(frame, socket)
        return socket

    async def take(self, frame: Frame, socket: web.WebSocketResponse) -> None:
        method = frame.get("method")
        match method:
            case "initialize":
                await self.send(socket, {"id": frame["id"], "result": {"userAgent": "played"}})
            case "initialized":
                pass
            case "thread/resume":
                thread = {"id": frame["params"]["threadId"], "status": self._status, "turns": []}
                await self.send(socket, {"id": frame["id"], "result": {"thread": thread}})
                for open_ in self._requests.values():
                    await self.send(socket, open_)
            case "thread/turns/list":
                data = [] if self._turn is None else [self._turn]
                await self.send(socket, {"id": frame["id"], "result": {"data": data, "nextCursor": None}})
            case "thread/items/list":
                data = [{"turnId": turn, "item": item} for turn, item in reversed(self._items)]
                await self.send(socket, {"id": frame["id"], "result": {"data": data, "nextCursor": None}})
            case _:
                await self._play(frame, socket)

    async def _play(self, frame: Frame, socket: web.WebSocketResponse) -> None:
        while self._lines and self._lines[0].dir == "in":
            self._lines.pop(0)  # what the program said before sm spoke the first time
        assert self._lines, f"the recording is over: {frame}"
        expected = self._lines.pop(0).msg
        assert expected.get("method") == frame.get("method"), (expected, frame)
        renamed = expected.get("params", {}).get("clientUserMessageId")
        if renamed is not None:
            self._ids[renamed] = frame["params"]["clientUserMessageId"]
        while self._lines and self._lines[0].dir == "in":
            said: Frame = self._with_ids(self._lines.pop(0).msg)
            if "method" not in said and said["id"] == expected["id"]:
                said = {**said, "id": frame["id"]}
            self._remember(said)
            await self.send(socket, said)

    def _with_ids(self, frame: Any) -> Any:
        text = json.dumps(frame)
        for recorded, chosen in self._ids.items():
            text = text.replace(json.dumps(recorded), json.dumps(chosen))
        return json.loads(text)

    def _remember(self, said: Frame) -> None:
        params = said.get("params", {})
        self._thread = said.get("result", {}).get("thread", {}).get("id") or self._thread
        match said.get("method"):
            case "thread/status/changed" if params["threadId"] == self._thread:
                self._status = params["status"]
            case "item/completed":
                self._items.append((params["turnId"], params["item"]))
            case "turn/started" | "turn/completed":
                self._turn = params["turn"]
            case "serverRequest/resolved":
                self._requests.pop(params["requestId"], None)
            case str() if "id" in said:
                self._requests[said["id"]] = said

    async def send(self, socket: web.WebSocketResponse, frame: Frame) -> None:
        with contextlib.suppress(ConnectionError):  # sm is away: the program goes on
            await socket.send_str(json.dumps(frame))


@contextlib.asynccontextmanager
async def listening(
    path: Path, serve: Callable[[web.Request], Awaitable[web.WebSocketResponse]]
) -> AsyncIterator[None]:
    """Serve WebSockets on a Unix socket."""
    app = web.Application()
    app.router.add_get("/", serve)
    runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=0.1)
    await runner.setup()
    await web.UnixSite(runner, str(path)).start()
    try:
        yield
    finally:
        await runner.cleanup()


class CuttableSocket:
    """A Unix socket in front of another one, whose connections a test can cut."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._writers: set[asyncio.StreamWriter] = set()

    @contextlib.asynccontextmanager
    async def listening(self, path: Path) -> AsyncIterator[None]:
        server = await asyncio.start_unix_server(self._connected, path)
        try:
            yield
        finally:
            server.close()
            self.cut()
            await server.wait_closed()

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_unix_connection(self._target)
        except OSError:
            writer.transport.abort()
            return
        pair = {writer, far_writer}
        self._writers |= pair
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pass_on(reader, far_writer))
            tasks.create_task(self._pass_on(far_reader, writer))
        self._writers -= pair

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        for other in self._writers & {writer}:
            other.transport.abort()
