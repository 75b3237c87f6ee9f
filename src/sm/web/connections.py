"""Accepts the connections of browsers. Limits those without a login: the oldest one is closed for a new one.

A stranger can neither use up the descriptors of the process nor keep the operator out. The server accepts connections
itself, because asyncio logs each accept that fails, and closes no connection during its TLS handshake.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from aiohttp import http_exceptions, web

HEAD_WITHIN_S = 10.0
"""The time for a TLS handshake, and the time for a complete head of a request."""
STRANGERS_MAX = 128
"""Connections without a login."""
LOGGED_IN_MAX = 640
"""More than the tabs and terminals that may be open. Connections above it count as connections without a login."""
_ACCEPTED_AT_ONCE = 64
_RETRY_AFTER_S = 0.5
_REPORT_EVERY_S = 60.0
_NO_ROOM = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}

log = logging.getLogger(__name__)
_T = TypeVar("_T")


class ConnectionTable:
    """The open connections. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float], strangers_max: int = STRANGERS_MAX) -> None:
        self._clock = clock
        self._strangers_max = strangers_max
        self._strangers: dict[BrowserConnection, None] = {}
        """In the order of their arrival."""
        self._logged_in: set[BrowserConnection] = set()
        self._closed = 0
        """Since the last report."""
        self._reported_at: float | None = None

    def __len__(self) -> int:
        return len(self._strangers) + len(self._logged_in)

    def add(self, connection: "BrowserConnection") -> None:
        self._strangers[connection] = None
        while len(self._strangers) > self._strangers_max:
            self.close_oldest(f"{self._strangers_max} connections without a login are open")

    def log_in(self, connection: "BrowserConnection") -> None:
        """Note that a right code or token came through a connection: no stranger can make the server close it."""
        if connection in self._strangers and len(self._logged_in) < LOGGED_IN_MAX:
            del self._strangers[connection]
            self._logged_in.add(connection)

    def remove(self, connection: "BrowserConnection") -> None:
        self._strangers.pop(connection, None)
        self._logged_in.discard(connection)

    def close_oldest(self, reason: str) -> None:
        """Close the oldest connection without a login, if there is one. Logs at most one line in a minute."""
        oldest = next(iter(self._strangers), None)
        if oldest is not None:
            self.remove(oldest)
            oldest.cut()
            self._closed += 1
        now = self._clock()
        if self._reported_at is None or now - self._reported_at >= _REPORT_EVERY_S:
            log.warning("%s: closed the oldest ones, %d since the last such line", reason, self._closed)
            self._reported_at, self._closed = now, 0


class BrowserConnection(web.RequestHandler):
    """One connection, from its accept on."""

    __slots__ = ("_accepted", "lost", "table")

    def __init__(
        self,
        server: web.Server,
        table: ConnectionTable,
        accepted: socket.socket,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(
            server,
            loop=loop,
            # The time for a complete head, from the connection or from the previous answer.
            keepalive_timeout=HEAD_WITHIN_S,
            access_log=None,  # type: ignore[arg-type]  # documented by AppRunner
        )
        self.table = table
        self.lost = asyncio.Event()
        """Set when the browser has gone: a handler runs on by itself."""
        self._accepted = accepted

    def cut(self) -> None:
        """End the connection now, also during its TLS handshake."""
        if self.transport is not None:
            self.transport.abort()
        else:
            _shut_down(self._accepted)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.table.remove(self)
        self.lost.set()
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer invalid HTTP without a log entry. A closed connection gets no answer."""
        if isinstance(exc, ConnectionError):
            raise exc
        if not isinstance(exc, http_exceptions.HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        answer = web.Response(status=status, text="not a valid HTTP/1.1 request\n")
        answer.force_close()
        return answer


class WebSite(web.BaseSite):
    """Serves an application on a listening socket."""

    __slots__ = ("_certificate", "_handshakes", "_listener", "_retry", "table")

    def __init__(
        self,
        runner: web.AppRunner,
        listener: socket.socket,
        *,
        certificate: ssl.SSLContext | None,
        backlog: int,
        strangers_max: int = STRANGERS_MAX,
    ) -> None:
        super().__init__(runner, ssl_context=certificate, backlog=backlog)
        self.table = ConnectionTable(asyncio.get_running_loop().time, strangers_max)
        self._listener = listener
        self._certificate = certificate
        self._handshakes: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None

    @property
    def name(self) -> str:
        return "sm web"

    async def start(self) -> None:
        await super().start()
        self._listener.setblocking(False)
        self._listener.listen(self._backlog)
        self._resume()

    async def stop(self) -> None:
        asyncio.get_running_loop().remove_reader(self._listener)
        if self._retry is not None:
            self._retry.cancel()
        for handshake in self._handshakes:
            handshake.cancel()
        await asyncio.gather(*self._handshakes, return_exceptions=True)
        await super().stop()

    def _resume(self) -> None:
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted, _address = self._listener.accept()
            except OSError as error:
                if error.errno in _NO_ROOM:
                    self.table.close_oldest(f"cannot accept connections: {error.strerror}")
                    loop.remove_reader(self._listener)
                    self._retry = loop.call_later(_RETRY_AFTER_S, self._resume)
                return  # no more, or this one has gone
            accepted.setblocking(False)
            handshake = loop.create_task(self._serve(accepted))
            self._handshakes.add(handshake)
            handshake.add_done_callback(self._handshakes.discard)

    async def _serve(self, accepted: socket.socket) -> None:
        """Hand a connection to its handler, after its TLS handshake."""
        loop, server = asyncio.get_running_loop(), self._runner.server
        assert server is not None
        connection = BrowserConnection(server, self.table, accepted, loop)
        self.table.add(connection)
        try:
            await loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._certificate,
                ssl_handshake_timeout=None if self._certificate is None else HEAD_WITHIN_S,
            )
        except OSError:  # with a failed, late or cut handshake
            self.table.remove(connection)
            accepted.close()


def note_login(request: web.Request) -> None:
    """Note that the connection of a request has shown a right code or token."""
    if isinstance(request.protocol, BrowserConnection):
        request.protocol.table.log_in(request.protocol)


async def unless_lost(request: web.Request, work: Coroutine[Any, Any, _T]) -> _T:
    """Do the work of a request, and cancel it when its browser has gone. Raises ConnectionResetError then."""
    connection = request.protocol
    if not isinstance(connection, BrowserConnection):
        return await work
    task = asyncio.create_task(work)
    gone = asyncio.create_task(connection.lost.wait())
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ConnectionResetError("the browser has gone")
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


def _shut_down(accepted: socket.socket) -> None:
    try:
        accepted.shutdown(socket.SHUT_RDWR)
    except OSError:
        accepted.close()  # not connected any more
