"""A real `sm web` of an instance, and a browser's side of its protocol."""

import contextlib
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import aiohttp
import orjson

from sm.web.address import WebAddress, running_server
from tests.instance import SM

SHELL = "PROMPT_COMMAND='trap exit TERM' exec bash --norc --noprofile -i"
"""A shell to type into. Bash ignores SIGTERM without the trap, so that its end would take the whole grace time."""


class ServedInstance(Protocol):
    """An instance of a test or of a benchmark. Its daemon runs."""

    @property
    def env(self) -> Mapping[str, str]: ...

    @property
    def work(self) -> Path: ...

    @property
    def state(self) -> Path: ...

    @property
    def socket(self) -> Path | str: ...


class WebServer:
    """The process `sm web`. `link` is the first printed link. `launcher`: a command that executes its arguments."""

    def __init__(self, instance: ServedInstance, *arguments: str, launcher: Sequence[str] = ()) -> None:
        self.instance = instance
        self.process = subprocess.Popen(
            [*launcher, SM, "web", "--port", "0", *arguments],
            env=instance.env,
            cwd=instance.work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.link = self.process.stdout.readline().strip()
        assert self.link, self.process.communicate()[1]

    @property
    def address(self) -> WebAddress:
        address = running_server(str(self.instance.state / "web"))
        assert address is not None
        return address

    @property
    def origin(self) -> str:
        return self.address.origin

    @property
    def code(self) -> str:
        return self.link.partition("#")[2]

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def web_server(
    instance: ServedInstance, *arguments: str, launcher: Sequence[str] = ()
) -> Iterator[WebServer]:
    server = WebServer(instance, *arguments, launcher=launcher)
    try:
        yield server
    finally:
        server.end()


class Browser:
    """One tab: it keeps what the board frames say, as the page does."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.hello: dict[str, Any] = {}
        self.board: dict[str, Any] = {}
        self.frames: list[dict[str, Any]] = []
        self._number = 0

    async def send(self, **frame: Any) -> None:
        await self.socket.send_str(orjson.dumps(frame).decode())

    async def receive(self) -> dict[str, Any]:
        message = await self.socket.receive()
        assert message.type is aiohttp.WSMsgType.TEXT, message
        frame: dict[str, Any] = orjson.loads(message.data)
        self.frames.append(frame)
        merge(self.board, frame)
        return frame

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        rows: dict[str, dict[str, Any]] = self.board.get("rows", {})
        return rows

    @property
    def layout(self) -> list[list[Any]]:
        layout: list[list[Any]] = self.board.get("layout", [])
        return layout

    async def until(self, condition: Callable[[], object]) -> None:
        """Take frames until the condition holds."""
        while not condition():
            await self.receive()

    async def frame(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Take frames up to one of that kind with these fields."""
        while True:
            frame = await self.receive()
            if frame["t"] == kind and all(frame.get(name) == value for name, value in fields.items()):
                return frame

    async def act(self, action: str, **fields: Any) -> dict[str, Any]:
        self._number += 1
        await self.send(t="act", n=self._number, action=action, **fields)
        return await self.frame("done", n=self._number)


def merge(state: dict[str, Any], frame: Mapping[str, Any]) -> None:
    """Add a frame to the state that a page keeps, as the page does."""
    if frame["t"] != "board":
        state[frame["t"]] = frame
        return
    if frame.get("snapshot"):
        state.clear()
    rows = state.setdefault("rows", {})
    for session_id, fields in frame["rows"].items():
        rows[session_id] = {**rows.get(session_id, {}), **fields}
    for session_id in frame.get("gone", ()):
        rows.pop(session_id, None)
    state.update({key: value for key, value in frame.items() if key != "rows"})


async def logged_in(http: aiohttp.ClientSession, origin: str, code: str) -> dict[str, Any]:
    async with http.post(f"{origin}/login", json={"code": code}, headers={"Origin": origin}) as answer:
        body: dict[str, Any] = await answer.json()
        assert answer.status == 200, body
        return body


@contextlib.asynccontextmanager
async def browser(
    http: aiohttp.ClientSession, origin: str, token: str, **options: Any
) -> AsyncIterator[Browser]:
    """A tab after its first complete board."""
    headers = {"Origin": origin}
    async with http.ws_connect(f"{origin}/ws", headers=headers, max_msg_size=0, **options) as socket:
        tab = Browser(socket)
        await tab.send(t="auth", token=token, revision=None)
        tab.hello = await tab.frame("hello")
        await tab.until(lambda: "loading" in tab.board and not tab.board["loading"])
        yield tab
