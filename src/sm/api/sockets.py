"""Serves listening sockets, and limits connections, followers (streams and held requests), bodies and times.

Closes connections that send nothing, send slowly or do not read their answers. Agent sockets also close connections
beyond a maximum. No input of one caller blocks the answers to others.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from aiohttp import http_exceptions, web

from sm.api.body import BodyBuffer
from sm.api.context import RequestContext, refusal
from sm.core.dataclass import dataclass
from sm.errors import InvalidPath, LimitReached, UsageError
from sm.paths import SOCKET_PATH_MAX_BYTES
from sm.wire import PROTOCOL, PROTOCOL_HEADER

_BACKLOG = 1024
_LINGER_S = 1.0
"""How long the server reads the rest of a request that it has answered already."""


@dataclass(frozen=True, slots=True)
class SocketLimits:
    """The resources that all callers of one socket may use together, or None if unlimited."""

    connections: int | None = None
    followers: int | None = None
    """Event streams and waiting requests."""
    bodies_bytes: int = 64 * 1024 * 1024
    """The total of bodies in receipt, except the operator's. The middleware limits each body."""
    within_s: float = 30.0
    """The time limit for a head, for a body, and for the reader of an answer."""


SOCKET_LIMITS = SocketLimits()
AGENT_SOCKET_LIMITS = SocketLimits(connections=64, followers=32, bodies_bytes=4 * 1024 * 1024)


class BodyTooLarge(web.HTTPRequestEntityTooLarge):
    def __init__(self, limit_bytes: int, size: int) -> None:
        super().__init__(limit_bytes, size)
        self.limit_bytes = limit_bytes


class Listener:
    """One listening socket. `identify` identifies the caller of a request, and raises NotPermitted.

    `name` names the socket in the audit log. `unknown_hint` is the hint for a request without a route.
    """

    def __init__(
        self,
        name: str,
        bounds: SocketLimits,
        identify: Callable[["Listener", web.Request], Awaitable[RequestContext]],
        unknown_hint: str = "after an upgrade: sm daemon restart",
    ) -> None:
        self.name = name
        self.bounds = bounds
        self.unknown_hint = unknown_hint
        self._identify = identify
        self._connections = 0
        self._followers = 0
        self._bodies_bytes = 0

    async def identify(self, request: web.Request) -> RequestContext:
        return await self._identify(self, request)

    def enter(self) -> bool:
        """Count a connection, which must `leave`; return False at the limit."""
        if self.bounds.connections is not None and self._connections >= self.bounds.connections:
            return False
        self._connections += 1
        return True

    def leave(self) -> None:
        self._connections -= 1

    @contextmanager
    def count_follower(self) -> Iterator[None]:
        """Count an event stream or a held request while the context is open. Raises LimitReached."""
        if self.bounds.followers is not None and self._followers >= self.bounds.followers:
            raise LimitReached(
                f"{self.bounds.followers} clients already follow events or wait on this socket",
                "end one of these clients first",
            )
        self._followers += 1
        try:
            yield
        finally:
            self._followers -= 1

    @asynccontextmanager
    async def receive_body(
        self, request: web.Request, most: int, *, counted: bool
    ) -> AsyncIterator[BodyBuffer]:
        """Receive a body of at most `most` bytes; with `counted` it counts until it is taken.

        Raises LimitReached, BodyTooLarge and other HTTP exceptions.
        """
        buffer = BodyBuffer(self._count if counted else lambda size: None)
        try:
            await self._receive(request, buffer, most)
            yield buffer
        finally:
            buffer.take()

    def _count(self, size: int) -> None:
        self._bodies_bytes += size
        if size > 0 and self._bodies_bytes > self.bounds.bodies_bytes:
            raise LimitReached(
                f"the bodies of the current requests on this socket exceed {self.bounds.bodies_bytes:,} bytes",
                "try again in a moment",
            )

    async def _receive(self, request: web.Request, buffer: BodyBuffer, most: int) -> None:
        announced = request.content_length or 0
        if announced > most:
            raise BodyTooLarge(most, announced)
        try:
            async with asyncio.timeout(self.bounds.within_s):
                while piece := await request.content.readany():
                    size = buffer.add(piece)
                    if size > most:
                        raise BodyTooLarge(most, size)
        except TimeoutError:
            raise web.HTTPRequestTimeout from None
        except (web.RequestPayloadError, http_exceptions.HttpProcessingError):
            raise UsageError("the request body does not match the request headers") from None


class ServerConnection(web.RequestHandler):
    """One connection through a listener."""

    __slots__ = ("_entered", "_stuck", "listener")

    def __init__(self, server: web.Server, listener: Listener, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            server,
            loop=loop,
            # The time for a complete head, from the connection or from the previous answer.
            keepalive_timeout=listener.bounds.within_s,
            lingering_time=_LINGER_S,
            access_log=None,  # type: ignore[arg-type]  # documented by AppRunner
            auto_decompress=False,
        )
        self.listener = listener
        self._entered = False
        self._stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._entered = self.listener.enter()
        if self._entered:
            super().connection_made(transport)
            return
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(_full(self.listener))
        transport.close()

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
        if self._entered:
            self.listener.leave()
            super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Abort the connection when its reader does not take the answer in time."""
        super().pause_writing()
        if self.transport is not None:
            self._stuck = self._loop.call_later(self.listener.bounds.within_s, self.transport.abort)

    def resume_writing(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None
        super().resume_writing()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer invalid HTTP with an ordinary error and without a log entry. A closed connection gets no answer."""
        if isinstance(exc, ConnectionError):
            raise exc
        if not isinstance(exc, http_exceptions.HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        answer = refusal(UsageError("not a valid HTTP/1.1 request"), status)
        answer.force_close()
        answer.headers[PROTOCOL_HEADER] = str(PROTOCOL)
        return answer


def _full(listener: Listener) -> bytes:
    error = LimitReached(
        f"this socket already has {listener.bounds.connections} connections", "try again in a moment"
    )
    answer = refusal(error, 503)
    body = answer.body
    assert isinstance(body, bytes)
    head = (
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n"
        f"{PROTOCOL_HEADER}: {PROTOCOL}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Site(web.BaseSite):
    """Serves an application on a listener. A stop closes the socket and keeps its file."""

    __slots__ = ("_listener", "_sock")

    def __init__(self, runner: web.AppRunner, listener: Listener, sock: socket.socket) -> None:
        super().__init__(runner)
        self._listener = listener
        self._sock = sock

    @property
    def name(self) -> str:
        return self._listener.name

    async def start(self) -> None:
        await super().start()
        loop, server = asyncio.get_running_loop(), self._runner.server
        assert server is not None
        # Not create_unix_server: it removes the file at a stop on Python 3.13.
        self._server = await loop.create_server(
            lambda: ServerConnection(server, self._listener, loop), sock=self._sock, backlog=_BACKLOG
        )


def listener_of(request: web.Request) -> Listener:
    connection = request.protocol
    assert isinstance(connection, ServerConnection)
    return connection.listener


def listen(path: str) -> socket.socket:
    """Bind a listening socket, 0600, in place of any other. Only the holder of the daemon's lock may call this."""
    if len(os.fsencode(path)) > SOCKET_PATH_MAX_BYTES:
        raise InvalidPath(
            f"the socket path {path} is longer than {SOCKET_PATH_MAX_BYTES} bytes",
            "set SM_HOME to a directory with a shorter path",
        )
    with suppress(FileNotFoundError):
        os.unlink(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    sock.bind(path)
    os.chmod(path, 0o600)
    sock.listen(_BACKLOG)
    return sock
