"""Connections in memory between played processes and the daemon, and the HTTP client of the played processes."""

import asyncio
import os
import socket
import struct
from collections.abc import Callable, Mapping
from contextvars import Context
from dataclasses import dataclass
from typing import Any

import orjson

from sm.client.connection import request
from sm.client.http import DaemonAway, new_key, refusal_of
from sm.client.http import _target as target
from sm.wire import encode
from tests.sim.lives import Life, life_in
from tests.sim.loop import VirtualLoop

__all__ = ["Caller", "HttpAnswer", "Switchboard", "target"]


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer with the names of its headers in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


_PIECE_BYTES = 256 * 1024
"""The most that a transport of asyncio reads at once."""

_HELD_MAX_BYTES = 64 * 1024
"""A writer has to wait when so much waits for the reader."""

_UID = os.geteuid()
"""The user of the daemon. A command in a container has another one."""


class _PeerSocket:
    """Answers what the server asks its socket: the process at the other end."""

    family = socket.AF_UNIX

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def getsockopt(self, level: int, option: int, size: int = 0) -> bytes:
        assert (level, option) == (socket.SOL_SOCKET, socket.SO_PEERCRED)
        return struct.pack("3i", self._pid, _UID, os.getegid())

    def setsockopt(self, *_: object) -> None:
        """Nothing to set."""


class _End(asyncio.Transport):
    """One end of a connection. Calls its protocol in the context of the process that has it."""

    def __init__(
        self, loop: VirtualLoop, protocol: asyncio.BaseProtocol, context: Context | None, peer: int
    ) -> None:
        super().__init__({"socket": _PeerSocket(peer)})
        self._loop = loop
        self._protocol = protocol
        self._context = context
        self.other: _End | None = None
        self._is_closing = False
        self._is_lost = False
        self._is_paused = False
        self._held: list[Callable[[], None]] = []
        """The steps that wait until the protocol reads again, oldest first."""
        self._held_bytes = 0
        self._is_full = False
        """The writer at the other end waits for this one to read."""

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        self._loop.call_soon(function, *arguments, context=self._context)

    def begin(self) -> None:
        self._call(self._protocol.connection_made, self)

    def write(self, data: "bytes | bytearray | memoryview[Any]") -> None:
        if not self._is_closing and self.other is not None:
            for begin in range(0, len(data), _PIECE_BYTES):
                self.other._call(self.other._receive, bytes(data[begin : begin + _PIECE_BYTES]))

    def _receive(self, data: bytes) -> None:
        if self._is_paused or self._held:
            self._held.append(lambda: self._take(data))
            self._hold(len(data))
        else:
            self._take(data)

    def _hold(self, size: int) -> None:
        """Let the other end stop to write while much is held, and go on when nothing is held any more."""
        self._held_bytes += size
        is_full = self._held_bytes > 0 if self._is_full else self._held_bytes > _HELD_MAX_BYTES
        if is_full is not self._is_full and self.other is not None:
            self._is_full = is_full
            self.other._slow_down(stops=is_full)

    def _slow_down(self, *, stops: bool) -> None:
        if not self._is_closing:
            self._call(self._protocol.pause_writing if stops else self._protocol.resume_writing)

    def _take(self, data: bytes) -> None:
        if not self._is_lost:
            assert isinstance(self._protocol, asyncio.Protocol)
            self._protocol.data_received(data)

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        self._call(self._go_on)

    def _go_on(self) -> None:
        while self._held and not self._is_paused:
            self._held.pop(0)()
        if not self._held:
            self._hold(-self._held_bytes)

    def is_reading(self) -> bool:
        return not self._is_paused

    def close(self) -> None:
        self._end(None)

    def abort(self) -> None:
        self._end(ConnectionResetError())

    def _end(self, error: Exception | None) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        self._call(self._lose, None)
        if self.other is not None:
            # A step later: a server begins with a connection before it can read the end of it.
            self.other._call(self.other._call, self.other.hang_up, error)

    def hang_up(self, error: Exception | None) -> None:
        """The other end has gone. The protocol gets what it has sent before."""
        if self._held:
            self._held.append(lambda: self._hang_up(error))
        else:
            self._hang_up(error)

    def _hang_up(self, error: Exception | None) -> None:
        if not self._is_closing and not self._is_lost:
            self._is_closing = True
            if error is None and isinstance(self._protocol, asyncio.Protocol):
                self._protocol.eof_received()
            self._lose(error)

    def _lose(self, error: Exception | None) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._protocol.connection_lost(error)

    def is_closing(self) -> bool:
        return self._is_closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is buffered."""


class _Serving:
    """The listening socket of a server, as far as its life can see it."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop

    def close(self) -> None:
        self._stop()


class Switchboard:
    """Connects callers with the process that listens on a path."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._listening: dict[str, tuple[Life, Callable[[], asyncio.BaseProtocol]]] = {}
        self._open: list[tuple[Life, _End]] = []
        self._kept: list[tuple[Life, socket.socket]] = []
        loop.serve = self.serve

    def keep(self, sock: socket.socket, life: Life) -> None:
        """Close a bound socket at the end of the life. Its file stays."""
        self._kept.append((life, sock))

    def serve(self, sock: socket.socket, protocol: Callable[[], asyncio.BaseProtocol]) -> "_Serving":
        """Listen on the path to which a socket is bound, for the life that runs."""
        life = life_in(None)
        assert life is not None
        path = str(sock.getsockname())
        self._listening[path] = life, protocol
        self.keep(sock, life)
        return _Serving(lambda: self._stop(path, (life, protocol)))

    def listen(self, path: str, life: Life, protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        """Serve a path that has no file on this machine."""
        self._listening[path] = life, protocol

    def _stop(self, path: str, served: tuple[Life, Callable[[], asyncio.BaseProtocol]]) -> None:
        """Stop to listen, unless another socket has taken the path meanwhile."""
        if self._listening.get(path) == served:
            del self._listening[path]

    def listener(self, path: str) -> str | None:
        """The pid of the process that listens on a path: `_listener` of sm.daemon.lock."""
        found = self._listening.get(path)
        return None if found is None else str(found[0].pid)

    def close(self, life: Life) -> None:
        """Close what a life listens to, and hang up its connections, as the kernel does for an ended process."""
        self._listening = {path: found for path, found in self._listening.items() if found[0] is not life}
        for owner, sock in self._kept:
            if owner is life:
                sock.close()
        self._kept = [(owner, sock) for owner, sock in self._kept if owner is not life]
        for owner, end in self._open:
            if owner is life and end.other is not None:
                end.other._call(end.other.hang_up, ConnectionResetError("the other process is gone"))
        self._open = [(owner, end) for owner, end in self._open if owner is not life]

    def cut_off(self, path: str) -> Callable[[], None]:
        """Hang up the connections to a path, and let nobody connect. The result lets others connect again."""
        life, protocol = self._listening.pop(path)
        for owner, end in self._open:
            if owner is life:
                end.abort()
        return lambda: self.listen(path, life, protocol)

    def connect(
        self, path: str, client: asyncio.BaseProtocol, pid: int, client_life: Life | None = None
    ) -> _End:
        """Connect `client` as process `pid`, which has that life. Raises ConnectionRefusedError."""
        if path not in self._listening:
            raise ConnectionRefusedError(f"nobody listens on {path}")
        life, protocol = self._listening[path]
        caller = _End(self._loop, client, None if client_life is None else client_life.context, life.pid)
        server = _End(self._loop, life.context.run(protocol), life.context, pid)
        caller.other, server.other = server, caller
        self._open = [found for found in self._open if not found[1].is_closing()]
        self._open.append((life, server))
        if client_life is not None:
            self._open.append((client_life, caller))
        caller.begin()
        server.begin()
        return caller


class Caller:
    """Sends requests to the daemon as one process: with its pid, and with the token of its environment."""

    def __init__(self, board: Switchboard, path: str, pid: int, environ: Mapping[str, str]) -> None:
        self._board = board
        self._path = path
        self._pid = pid
        self._environ = environ

    async def get(self, path: str, **query: object) -> Any:
        return await self.send("GET", target(path, query))

    async def post(
        self, path: str, body: Mapping[str, object] | None = None, *, key: str | None = None
    ) -> Any:
        return await self.send("POST", path, body or {}, key or new_key())

    async def send(
        self, method: str, target: str, body: Mapping[str, object] | None = None, key: str | None = None
    ) -> Any:
        """The JSON of the answer. Raises the refusals of the daemon, and DaemonAway."""
        status, answer = await self.exchange(method, target, body, key)
        if status >= 400:
            raise refusal_of(status, answer)
        return orjson.loads(answer)

    async def exchange(
        self, method: str, target: str, body: Mapping[str, object] | None = None, key: str | None = None
    ) -> tuple[int, bytes]:
        """The status and the body of the answer. Raises DaemonAway."""
        answer = await self.answer(method, target, body, key)
        return answer.status, answer.body

    async def answer(
        self, method: str, target: str, body: Mapping[str, object] | None = None, key: str | None = None
    ) -> HttpAnswer:
        """The answer to a request. Raises DaemonAway."""
        content = None if body is None else encode(body)
        return await self.carry(request(method, target, key=key, body=content, token=self._token()))

    async def carry(self, sent: bytes) -> HttpAnswer:
        """Send the bytes of a request. Raises DaemonAway."""
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            end = self._board.connect(self._path, protocol, self._pid)
        except ConnectionRefusedError as error:
            raise DaemonAway(str(error)) from None
        try:
            end.write(sent)
            return await _answer(reader)
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            raise DaemonAway(f"the connection broke: {error}") from None
        finally:
            end.close()

    def _token(self) -> str:
        try:
            with open(self._environ["SM_TOKEN_FILE"], encoding="ascii") as file:
                return file.read().strip()
        except (KeyError, OSError):
            return ""


async def _answer(reader: asyncio.StreamReader) -> HttpAnswer:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    status = int(first.split()[1])
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += await reader.readexactly(size)
            await reader.readexactly(2)
        return HttpAnswer(status, headers, body)
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return HttpAnswer(status, headers, body)
