"""The WebSocket of one tab: sends it frames, and takes its frames."""

import asyncio
import secrets
import time
from contextlib import AsyncExitStack, suppress
from typing import assert_never

import orjson
from aiohttp import WSMsgType, web

from sm import __version__
from sm.errors import LimitReached, SmError
from sm.web.acts import Acts, error_fields
from sm.web.changes import KeepReviewed
from sm.web.channel_view import ChannelView
from sm.web.channels import Channels, Kind
from sm.web.client_frames import (
    ActFrame,
    InvalidFrame,
    LookFrame,
    OpenFrame,
    PingFrame,
    RestFrame,
    SelectFrame,
    ViewFrame,
    client_frame,
)
from sm.web.daemon_link import DaemonLink
from sm.web.frames import hello_fields
from sm.web.hub import Hub
from sm.web.sockets import FRAME_INVALID, FULL, LoginSocket, SocketClosed, SocketLogins, first_closed
from sm.web.tab import Tab

_FRAME_EVERY_S = 0.1
_URGENT_EVERY_S = 0.05
_TABS_MAX = 400
_ACTS_MAX = 8
_CHANNELS_MAX = 8


class BrowserSockets:
    """The sockets of all tabs."""

    def __init__(
        self, hub: Hub, link: DaemonLink, channels: Channels, keep: KeepReviewed, logins: SocketLogins
    ) -> None:
        self._hub = hub
        self._link = link
        self._keep = keep
        self._channels = channels
        self._logins = logins
        self._instance = secrets.token_hex(8)
        """Changes with each start of the server."""

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """The handler of the route. Host and Origin have been checked."""
        response, socket = await self._logins.open(request)
        if socket is not None:
            try:
                if len(self._hub.tabs) >= _TABS_MAX:
                    raise SocketClosed(FULL, "too many tabs are open")
                tab = Tab(self._hub, socket.login)
                acts = Acts(self._hub, self._link, self._keep, tab)
                await _Connection(
                    self._hub, self._channels, self._instance, self._logins, socket, tab, acts
                ).run()
            except SocketClosed as closed:
                await socket.close(closed)
        return response


class _Connection:
    def __init__(
        self,
        hub: Hub,
        channels: Channels,
        instance: str,
        logins: SocketLogins,
        socket: LoginSocket,
        tab: Tab,
        acts: Acts,
    ) -> None:
        self._hub = hub
        self._channels = channels
        self._instance = instance
        self._logins = logins
        self._socket = socket
        self._login = socket.login
        self._tab = tab
        self._acts = acts
        self._running = 0
        self._views: dict[tuple[Kind, str], tuple[AsyncExitStack, ChannelView]] = {}
        """The open channels."""

    async def run(self) -> None:
        """Serve the tab until its socket ends. Raises SocketClosed."""
        hub = self._hub
        await self._socket.send(self._hello())
        hub.add(self._tab)
        closed: SocketClosed | None = None
        try:
            self._tab.wake()
            async with asyncio.TaskGroup() as tasks:
                sending = tasks.create_task(self._send_frames(tasks))
                watching = tasks.create_task(self._logins.watch(self._login))
                await self._take_frames(tasks)
                sending.cancel()
                watching.cancel()
        except* SocketClosed as group:
            closed = first_closed(group)
        except* (ConnectionError, TimeoutError):
            pass  # the browser has gone, or does not read
        finally:
            hub.remove(self._tab)
            for stack, _ in self._views.values():
                await stack.aclose()
        if closed is not None:
            raise SocketClosed(closed.code, closed.reason)

    def _hello(self) -> bytes:
        return orjson.dumps(
            {
                "t": "hello",
                "scope": self._login.scope.value,
                "login": self._login.name,
                "version": __version__,
                "instance": self._instance,
                **hello_fields(),
            }
        )

    async def _send_frames(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            urgent = await self._tab.wait()
            clock_s = time.monotonic()
            if self._tab.lacks_selected(clock_s):
                tasks.create_task(self._tab.read_selected(clock_s))
            for frame in self._tab.frames(clock_s):
                await self._socket.send(frame)
            for _, view in tuple(self._views.values()):
                if (news := view.frame()) is not None:
                    await self._socket.send(news)
            for key in self._tab.newly_settled():
                await self._tell_settled(key)
            await asyncio.sleep(_URGENT_EVERY_S if urgent else _FRAME_EVERY_S)

    async def _take_frames(self, tasks: asyncio.TaskGroup) -> None:
        """Take frames until the socket ends."""
        async for message in self._socket.socket:
            if message.type is not WSMsgType.TEXT:
                raise SocketClosed(FRAME_INVALID, "frames are text")
            self._logins.check(self._login)
            try:
                frame = client_frame(message.data)
            except InvalidFrame as error:
                raise SocketClosed(FRAME_INVALID, str(error)) from None
            match frame:
                case ViewFrame():
                    self._tab.show(frame)
                case RestFrame():
                    self._tab.rest(rests=frame.rests)
                case LookFrame():
                    self._tab.look(hidden=frame.hidden)
                case SelectFrame():
                    self._tab.select(frame.session)
                case OpenFrame():
                    await self._open_or_close(frame)
                case PingFrame():
                    await self._socket.send(b'{"t":"pong"}')
                case ActFrame():
                    tasks.create_task(self._act(frame))
                case _:
                    assert_never(frame)

    async def _open_or_close(self, frame: OpenFrame) -> None:
        key = frame.channel, frame.session
        if frame.t == "close":
            if key in self._views:
                stack, _ = self._views.pop(key)
                await stack.aclose()
            return
        if key in self._views:
            return
        if len(self._views) >= _CHANNELS_MAX:
            raise SocketClosed(FRAME_INVALID, "too many channels are open")
        stack = AsyncExitStack()
        try:
            looking = self._channels.looking(*key, self._tab.wake)
            channel = await stack.enter_async_context(looking)
        except LimitReached as error:
            refused = {"t": frame.channel, "session": frame.session, "over": True, "trouble": error.message}
            await self._socket.send(orjson.dumps(refused))
            return
        self._views[key] = stack, ChannelView(*key, channel)
        self._tab.wake(urgent=True)

    async def _tell_settled(self, key: str) -> None:
        with suppress(SmError):
            if (words := await self._acts.settled_words(key)) is not None:
                await self._socket.send(orjson.dumps({"t": "settled", "key": key, "words": words}))

    async def _act(self, frame: ActFrame) -> None:
        if self._running >= _ACTS_MAX:
            error: SmError = LimitReached("too many actions run at the same time")
            await self._socket.send(orjson.dumps({"t": "done", "n": frame.n, **error_fields(error)}))
            return
        self._running += 1
        try:
            result = await self._acts.carry_out(frame)
            done = {"ok": True, "words": result.words, "undo": result.undo, "session": result.session}
        except SmError as error:
            done = error_fields(error, frame.action)
        finally:
            self._running -= 1
        with suppress(ConnectionError):
            await self._socket.send(orjson.dumps({"t": "done", "n": frame.n, **done}))
