"""The WebSocket of a terminal page: a tmux client of an agent's terminal, on a pseudo-terminal of its own.

The browser sends `auth`, then `attach` with the session and the size, then `resize` and `shown`, and typed input as
binary frames. The server sends `attached`, the output as binary frames, `held` for a paused agent that reads no keys,
and at the end `ended`; or `refused`.
"""

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import NoReturn

import orjson
from aiohttp import WSMsgType, web

from sm.client.http import TIMEOUT_S, session_path
from sm.core.pause_states import held_words
from sm.errors import LimitReached, SmError
from sm.linux.pty_process import PtyProcess, pty_process
from sm.web.client_frames import (
    AttachFrame,
    InvalidFrame,
    ResizeFrame,
    ShownFrame,
    attach_frame,
    terminal_frame,
)
from sm.web.daemon_link import DaemonLink
from sm.web.hub import Hub
from sm.web.logins import scope_of
from sm.web.sockets import (
    FIRST_FRAME_WITHIN_S,
    FRAME_INVALID,
    LOGIN_LATE,
    NOT_POSSIBLE,
    OVER,
    SCOPE_TOO_SMALL,
    LoginSocket,
    SocketClosed,
    SocketLogins,
    first_closed,
)

log = logging.getLogger(__name__)

_TERMINALS_MAX = 16
_AHEAD_MAX_BYTES = 256 * 1024
"""The output that the browser has not drawn yet. With more of it the server stops to read the terminal."""
_RESIZE_EVERY_S = 0.1
_INPUT_WITHIN_S = 30.0
_LOOK_EVERY_S = 0.5


_SESSION_ENDED = "The session has ended."


class TerminalSockets:
    """The sockets of all terminal pages."""

    def __init__(self, hub: Hub, link: DaemonLink, logins: SocketLogins) -> None:
        self._hub = hub
        self._link = link
        self._logins = logins
        self._count = 0

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """The handler of the route. Host and Origin have been checked."""
        response, socket = await self._logins.open(request)
        if socket is None:
            return response
        self._count += 1
        try:
            await self._serve(socket)
        except SocketClosed as closed:
            await socket.close(closed)
        except (ConnectionError, TimeoutError):
            pass  # the browser has gone, or does not read
        finally:
            self._count -= 1
        return response

    async def _serve(self, socket: LoginSocket) -> None:
        frame = await _attach_frame(socket)
        needed = scope_of("attach")
        if not socket.login.scope.includes(needed):
            raise SocketClosed(SCOPE_TOO_SMALL, f"this login may not attach: it needs the scope {needed}")
        try:
            if self._count > _TERMINALS_MAX:
                raise LimitReached("too many terminals are open in browsers", "close some of them")
            path = session_path(frame.session, "/attach")
            # The daemon decides, and writes the login into its audit log.
            answer = await self._link.get(path, {"seen": "1"}, login=socket.login, timeout_s=TIMEOUT_S)
        except SmError as error:
            await _tell(socket, "refused", words=error.message, hint=error.hint)
            raise SocketClosed(NOT_POSSIBLE, error.message) from None
        async with AsyncExitStack() as stack:
            running = pty_process(
                client_command([str(part) for part in answer["argv"]]),
                client_environment(os.environ),
                frame.columns,
                frame.rows,
            )
            try:
                terminal = await stack.enter_async_context(running)
            except OSError as error:
                reason = f"cannot run tmux: {error.strerror or error}"
                await _tell(socket, "refused", words=reason, hint="sm doctor")
                raise SocketClosed(NOT_POSSIBLE, reason) from None
            log.info("%s attached to session %s", socket.login.name, frame.session)
            await _Terminal(self._hub, self._link, self._logins, socket, frame.session, terminal).run()


class _Terminal:
    def __init__(
        self,
        hub: Hub,
        link: DaemonLink,
        logins: SocketLogins,
        socket: LoginSocket,
        session_id: str,
        terminal: PtyProcess,
    ) -> None:
        self._hub = hub
        self._link = link
        self._logins = logins
        self._socket = socket
        self._session_id = session_id
        self._terminal = terminal
        self._ahead = 0
        self._drawn = asyncio.Event()
        self._size: tuple[int, int] | None = None
        """The wanted size, until the terminal has it."""
        self._resized = asyncio.Event()

    async def run(self) -> None:
        """Pass input and output on until one of both sides ends. Raises SocketClosed."""
        row = self._hub.situation.table.unarchived.get(self._session_id)
        label = self._session_id if row is None else row.label
        await _tell(self._socket, "attached", session=self._session_id, label=label)
        closed = SocketClosed(OVER)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._logins.watch(self._socket.login))
                tasks.create_task(self._resize())
                tasks.create_task(self._send_output())
                tasks.create_task(self._watch_session())
                await self._take_frames()
                raise closed
        except* SocketClosed as group:
            closed = first_closed(group)
        except* (ConnectionError, TimeoutError):
            pass  # the browser has gone, or does not read
        raise SocketClosed(closed.code, closed.reason)

    async def _send_output(self) -> None:
        while True:
            while self._ahead >= _AHEAD_MAX_BYTES:
                self._drawn.clear()
                await self._drawn.wait()
            output = await self._terminal.read()
            if not output:
                await self._end_client()
            self._ahead += len(output)
            await self._socket.send(output, WSMsgType.BINARY)

    async def _watch_session(self) -> None:
        """End with the session: tmux keeps the screen of an agent that has ended, and nobody reads the keys.

        Tell the page when a pause keeps the agent from reading them, and when it does no longer.
        """
        told = ""
        while True:
            if self._has_ended():
                await self._end(_SESSION_ENDED)
            if (held := self._held()) != told:
                told = held
                await _tell(self._socket, "held", words=held)
            await asyncio.sleep(_LOOK_EVERY_S)

    def _held(self) -> str:
        """Why the agent of a paused session reads no keys, or empty if it may read them."""
        row = self._hub.situation.table.unarchived.get(self._session_id)
        pause = None if row is None else row.data["paused"]
        held = held_words(str(pause.get("held"))) if pause else ""
        return f"The session is paused: {held}." if held else ""

    def _has_ended(self) -> bool:
        row = self._hub.situation.table.unarchived.get(self._session_id)
        return row is not None and not row.has_process

    async def _end(self, words: str) -> NoReturn:
        await _tell(self._socket, "ended", words=words)
        raise SocketClosed(OVER)

    async def _end_client(self) -> NoReturn:
        """Say whether the terminal is closed, or only the tmux client has ended."""
        path = session_path(self._session_id, "/output")
        try:
            shown = await self._link.get(path, {"lines": "1"}, login=None, timeout_s=TIMEOUT_S)
            is_over = shown["archived"] or self._has_ended()
            words = _SESSION_ENDED if is_over else "Detached. The agent keeps running."
        except SmError as error:
            words = f"Detached. {error.message}"
        await self._end(words)

    async def _take_frames(self) -> None:
        """Take frames until the socket ends."""
        async for message in self._socket.socket:
            self._logins.check(self._socket.login)
            if message.type is WSMsgType.BINARY:
                async with asyncio.timeout(_INPUT_WITHIN_S):
                    await self._terminal.write(message.data)
                continue
            try:
                frame = terminal_frame(message.data)
            except InvalidFrame as error:
                raise SocketClosed(FRAME_INVALID, str(error)) from None
            match frame:
                case ResizeFrame():
                    self._size = frame.columns, frame.rows
                    self._resized.set()
                case ShownFrame():
                    if frame.bytes > self._ahead:
                        raise SocketClosed(FRAME_INVALID, "bytes: more than were sent")
                    self._ahead -= frame.bytes
                    self._drawn.set()

    async def _resize(self) -> None:
        """Apply the newest size, not every one: each makes tmux and the agent draw their screen again."""
        while True:
            await self._resized.wait()
            self._resized.clear()
            if self._size is not None:
                self._terminal.resize(*self._size)
            await asyncio.sleep(_RESIZE_EVERY_S)


async def _attach_frame(socket: LoginSocket) -> AttachFrame:
    try:
        async with asyncio.timeout(FIRST_FRAME_WITHIN_S):
            message = await socket.socket.receive()
    except TimeoutError:
        raise SocketClosed(LOGIN_LATE, "no attach in time") from None
    if message.type is not WSMsgType.TEXT:
        raise SocketClosed(FRAME_INVALID, "the second frame must be attach")
    try:
        return attach_frame(message.data)
    except InvalidFrame as error:
        raise SocketClosed(FRAME_INVALID, str(error)) from None


async def _tell(socket: LoginSocket, kind: str, **fields: str | None) -> None:
    await socket.send(orjson.dumps({"t": kind, **fields}))


def client_command(argv: Sequence[str]) -> list[str]:
    """The daemon's command to attach, for a client that does not change the environment of the tmux session (-E)."""
    return [word for part in argv for word in ((part, "-E") if part == "attach-session" else (part,))]


def client_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of the tmux client: nothing of the operator's but the path of programs."""
    return {"PATH": environ.get("PATH", os.defpath), "TERM": "xterm-256color", "LANG": "C.UTF-8"}
