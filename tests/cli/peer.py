"""A scripted daemon: HTTP/1.1 over a Unix socket in its own thread.

The peer shares no code with the daemon or the client, so that tests check the protocol. tests/played/cli/peer.py has
the same peer in memory.
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


@dataclass(frozen=True)
class ReceivedRequest:
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

    @property
    def key(self) -> str:
        return self.headers["idempotency-key"]


HANG_UP = b""
"""An answer: close the connection without a byte."""
SILENCE = None
"""An answer: send nothing until the peer is closed."""


class Open(bytes):
    """An answer after which the connection stays open until the peer is closed."""


Answer = bytes | None | Callable[[ReceivedRequest], bytes | None]


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


class Script:
    """Sends the scripted answers of each path in order, and repeats the last answer."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.received: list[ReceivedRequest] = []
        self._answers: dict[str, deque[Answer]] = defaultdict(deque)
        self._closing = asyncio.Event()

    def script(self, request: str, *answers: Answer) -> None:
        """Add answers to a request such as `GET /v1/health`, without a query."""
        self._answers[request].extend(answers)

    def requests_to(self, path: str) -> list[ReceivedRequest]:
        return [received for received in self.received if received.path == path]

    def _note(self, request: ReceivedRequest) -> None:
        self.received.append(request)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await _read(reader)
            self._note(request)
            answers = self._answers[f"{request.method} {request.path}"]
            unknown = error("not_found", "nothing is scripted for this request", 404)
            response = answers[0] if len(answers) == 1 else answers.popleft() if answers else unknown
            if callable(response):
                response = response(request)
            if response is None:
                await self._closing.wait()
            else:
                writer.write(response)
                await writer.drain()
                if isinstance(response, Open):
                    await self._closing.wait()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # a client that only checks for a listener
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


class Peer(Script):
    """Answers on a real socket."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._server: asyncio.Server | None = None
        self._arrived = threading.Condition()

    def wait_received(self, count: int) -> None:
        """Wait until `count` requests have arrived."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.received) >= count), self.received

    def _note(self, request: ReceivedRequest) -> None:
        with self._arrived:
            super()._note(request)
            self._arrived.notify_all()

    def __enter__(self) -> Self:
        os.makedirs(os.path.dirname(self.path), 0o700, exist_ok=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _open(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self.path)

    async def _close(self) -> None:
        assert self._server is not None
        self._closing.set()
        # Includes asyncio's own accept tasks, before the server is closed: Python 3.11 leaks the socket of a
        # connection whose server was closed between its accept and its transport.
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)
        self._server.close()
        with suppress(FileNotFoundError):  # Python 3.13 removes it
            os.unlink(self.path)


async def _read(reader: asyncio.StreamReader) -> ReceivedRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return ReceivedRequest(method, target, headers, body)
