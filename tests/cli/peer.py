"""A scripted daemon: HTTP/1.1 over a Unix socket by asyncio alone, in a thread of its own.

It shares no code with the daemon or the client, so that what the tests show is the protocol.
"""

import asyncio
import json
import os
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from tests.load import scaled


@dataclass(frozen=True)
class Asked:
    """One request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


HANG_UP = b""
"""An answer: close the connection without a byte."""
SILENCE = None
"""An answer: say nothing until the peer is closed."""


class Open(bytes):
    """An answer after which the connection stays open until the peer is closed."""


Answer = bytes | None | Callable[[Asked], bytes | None]


def answer(value: object, status: int = 200, *, protocol: str | None = "1") -> bytes:
    """A whole answer with Content-Length."""
    body = json.dumps(value, ensure_ascii=False).encode()
    head = f"HTTP/1.1 {status} Whatever\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    if protocol is not None:
        head += f"SM-Protocol: {protocol}\r\n"
    return head.encode() + b"\r\n" + body


def chunked(*pieces: bytes, end: bool = True) -> bytes:
    """A whole answer in chunks; without `end` it breaks off."""
    head = b"HTTP/1.1 200 OK\r\nSM-Protocol: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return head + body + (b"0\r\n\r\n" if end else b"")


def error(code: str, message: str, status: int = 400, hint: str | None = None) -> bytes:
    return answer({"error": {"code": code, "message": message, "hint": hint}}, status)


class Peer:
    """Answers what it was told to, each path's answers in order, the last one for ever."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.asked: list[Asked] = []
        self._answers: dict[str, deque[Answer]] = defaultdict(deque)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._server: asyncio.Server | None = None
        self._told = threading.Condition()
        self._closing = asyncio.Event()

    def script(self, request: str, *answers: Answer) -> None:
        """`request` is `GET /v1/health`, without a query."""
        self._answers[request].extend(answers)

    def wait_asked(self, count: int) -> None:
        """Wait until `count` requests have arrived."""
        with self._told:
            assert self._told.wait_for(lambda: len(self.asked) >= count, scaled()), self.asked

    def __enter__(self) -> Self:
        os.makedirs(os.path.dirname(self.path), 0o700, exist_ok=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(scaled())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(scaled())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(scaled())
        self._loop.close()

    async def _open(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self.path)

    async def _close(self) -> None:
        assert self._server is not None
        self._closing.set()
        # Also those with which asyncio accepts a connection. They come before the server is closed: Python 3.11
        # leaks the socket of a connection whose server was closed between its accept and its transport.
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others, timeout=scaled())
        self._server.close()
        os.unlink(self.path)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked = await _read(reader)
            with self._told:
                self.asked.append(asked)
                self._told.notify_all()
            answers = self._answers[f"{asked.method} {asked.path}"]
            said = answers[0] if len(answers) == 1 else answers.popleft() if answers else None
            if callable(said):
                said = said(asked)
            if said is None:
                await self._closing.wait()
            else:
                writer.write(said)
                await writer.drain()
                if isinstance(said, Open):
                    await self._closing.wait()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # a client that only looks whether somebody listens
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(method, target, headers, body)
