"""Opens the WebSockets of browsers: the first frame logs a socket in. Closes them, and those that do not read."""

import asyncio
from contextlib import suppress

from aiohttp import WSMsgType, web

from sm.errors import LimitReached, Unauthenticated
from sm.web.client_frames import FRAME_MAX_BYTES, InvalidFrame, auth_frame
from sm.web.connections import note_login
from sm.web.login_guard import LoginGuard
from sm.web.logins import WebLogin

OVER = 1000
FRAME_INVALID = 4400
LOGIN_INVALID = 4401
SCOPE_TOO_SMALL = 4403
NOT_POSSIBLE = 4404
LOGIN_LATE = 4408
LOGIN_LIMIT = 4429
FULL = 4503
FIRST_FRAME_WITHIN_S = 5.0
_PING_EVERY_S = 20.0
_SEND_WITHIN_S = 30.0
_CLOSE_WITHIN_S = 2.0


class SocketClosed(Exception):
    """The socket has to be closed with this code."""

    def __init__(self, code: int, reason: str = "") -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


def first_closed(group: BaseExceptionGroup[SocketClosed]) -> SocketClosed:
    """The first SocketClosed in a group, which may contain other groups."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    assert isinstance(found, SocketClosed)
    return found


class LoginSocket:
    """The socket of a browser, and its login."""

    def __init__(self, request: web.Request, socket: web.WebSocketResponse, login: WebLogin) -> None:
        self.socket = socket
        self.login = login
        self._request = request

    async def send(self, content: bytes, kind: WSMsgType = WSMsgType.TEXT) -> None:
        """Send a frame. Raises ConnectionError, and TimeoutError for a browser that does not read."""
        try:
            async with asyncio.timeout(_SEND_WITHIN_S):
                await self.socket.send_frame(content, kind)
        except TimeoutError:
            if self._request.transport is not None:
                self._request.transport.abort()
            raise

    async def close(self, closed: SocketClosed) -> None:
        await _close(self.socket, closed)


class SocketLogins:
    """Lets sockets in."""

    def __init__(self, logins: LoginGuard) -> None:
        self._logins = logins

    async def open(self, request: web.Request) -> tuple[web.WebSocketResponse, LoginSocket | None]:
        """Open the socket of a request whose Host and Origin have been checked. None if it was refused and closed."""
        socket = web.WebSocketResponse(
            max_msg_size=FRAME_MAX_BYTES, heartbeat=_PING_EVERY_S, compress=False, timeout=1.0
        )
        try:
            await socket.prepare(request)
            login = await self._login(socket)
        except SocketClosed as closed:
            await _close(socket, closed)
            return socket, None
        note_login(request)
        return socket, LoginSocket(request, socket, login)

    async def _login(self, socket: web.WebSocketResponse) -> WebLogin:
        try:
            async with asyncio.timeout(FIRST_FRAME_WITHIN_S):
                message = await socket.receive()
        except TimeoutError:
            raise SocketClosed(LOGIN_LATE, "no login in time") from None
        if message.type is not WSMsgType.TEXT:
            raise SocketClosed(FRAME_INVALID, "the first frame must be auth")
        try:
            return self._logins.authenticate(auth_frame(message.data).token)
        except InvalidFrame as error:
            raise SocketClosed(FRAME_INVALID, str(error)) from None
        except Unauthenticated as error:
            raise SocketClosed(LOGIN_INVALID, error.message) from None
        except LimitReached as error:
            raise SocketClosed(LOGIN_LIMIT, error.message) from None

    def check(self, login: WebLogin) -> None:
        """Raise SocketClosed if the login was withdrawn."""
        if not self._logins.is_valid(login):
            raise SocketClosed(LOGIN_INVALID, "the login was withdrawn")

    async def watch(self, login: WebLogin) -> None:
        """Raise SocketClosed when the login is withdrawn."""
        await self._logins.wait_ended(login)
        raise SocketClosed(LOGIN_INVALID, "the login was withdrawn")


async def _close(socket: web.WebSocketResponse, closed: SocketClosed) -> None:
    reason = closed.reason.encode()[:120]
    with suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(_CLOSE_WITHIN_S):
            await socket.close(code=closed.code, message=reason)
