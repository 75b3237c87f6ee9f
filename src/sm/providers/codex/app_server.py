"""Holds the connection to an app-server: JSON-RPC over WebSocket over a Unix socket.

The app-server drops a client that does not read. So one task reads all the time and does nothing that waits: it hands
frames to the pure reader and puts the words into a backlog. A frame or a backlog that is too large costs the
connection, which is made again once there is room. The conversation then proves the messages that had no receipt.
"""

import asyncio
import contextlib
import json
import logging
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import aiohttp

from sm.core.backoff import Backoff
from sm.errors import ExternalError, IllegalState, WaitTimeout
from sm.linux.sockets import peer_of
from sm.providers.codex.approvals import answer_to
from sm.providers.codex.frames import RpcFailure, RpcResult, decoded, read_frame
from sm.providers.codex.protocol import ProtocolReader
from sm.providers.links import (
    Answerer,
    ConversationStarted,
    LinkEvent,
    OfferedDecision,
    RequestId,
    StateUpdate,
)

log = logging.getLogger(__name__)

CONNECT_S = 10.0
CALL_S = 30.0
SEND_S = 10.0
"""How long a frame may wait until the program reads it."""
HEARTBEAT_S = 30.0
"""A program that answers no ping for half of this time is lost."""
FRAME_MAX = 16 * 2**20
"""Bytes of one frame."""
BACKLOG_MAX = 20_000
"""Words that wait to be taken."""
ITEMS_READ = 200
"""Items at the end of a conversation that are read when the connection is back."""
_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.1, 5.0
_INTERRUPTS, _INTERRUPT_AGAIN_S = 5, 0.05
_CLIENT = {"clientInfo": {"name": "sm", "version": "1"}, "capabilities": {"experimentalApi": True}}


class AppServerLink:
    """A `HeldLink` to one app-server.

    `path`: its socket. `clock`: the time in seconds since the epoch. The limits are arguments for tests.
    """

    def __init__(
        self,
        path: str,
        clock: Callable[[], float] = time.time,
        *,
        call_s: float = CALL_S,
        frame_max: int = FRAME_MAX,
        backlog_max: int = BACKLOG_MAX,
    ) -> None:
        self._path = path
        self._clock = clock
        self._call_s = call_s
        self._frame_max = frame_max
        self._backlog_max = backlog_max
        self._reader = ProtocolReader()
        self._backlog: deque[LinkEvent] = deque()
        self._filled, self._drained = asyncio.Event(), asyncio.Event()
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._ready = asyncio.Event()
        self._problem = ""
        """The reason to drop the connection, or empty for none."""
        self._answers: dict[RequestId, asyncio.Future[RpcResult | RpcFailure]] = {}
        self._next_id = 0
        self._unfollowed: str | None = None
        """A conversation of a person whose items the program does not send yet."""

    @property
    def conversation(self) -> str | None:
        return self._reader.conversation

    async def run(self, conversation: str | None = None, unproved: Sequence[str] = ()) -> None:
        for message in unproved:
            self._reader.expect(message, conversation or "")
        backoff = Backoff(_FIRST_RETRY_S, _LONGEST_RETRY_S)
        while True:
            reason = "it cannot be reached"
            try:
                async with self._connected() as socket:
                    reason = await self._hold(socket, self.conversation or conversation, backoff)
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                reason = str(error) or type(error).__name__
            self._lose(reason)
            if len(self._backlog) >= self._backlog_max:
                self._drained.clear()
                await self._drained.wait()
            await asyncio.sleep(backoff.next_s())

    async def take(self) -> Sequence[LinkEvent]:
        await self._filled.wait()
        taken = list(self._backlog)
        self._backlog.clear()
        self._filled.clear()
        self._drained.set()
        return taken

    async def open(self, options: Mapping[str, object]) -> str:
        await self._call("thread/start", options)
        if self.conversation is None:
            raise ExternalError("codex started a conversation without an id")
        return self.conversation

    async def send(self, message: str, text: str, *, queued: bool = False) -> None:
        params = {
            "threadId": self._opened(),
            "input": [{"type": "text", "text": text}],
            "clientUserMessageId": message,
        }
        await self._call("thread/queue/add" if queued else "turn/start", params)

    async def answer(
        self, request: RequestId, *, decision: OfferedDecision | None = None, answers: Sequence[str] = ()
    ) -> None:
        call = self._reader.request(request)
        if call is None:
            raise IllegalState(
                f"request {request} of codex is closed: it was answered, or its turn has ended"
            )
        answer = answer_to(call, decision, answers)
        if answer is None:
            raise IllegalState(f"request {request} of codex can only be answered in its terminal")
        await self._connection()
        await self._write({"id": request, "result": answer})

    async def interrupt(self) -> bool:
        await self._connection()
        for attempt in range(_INTERRUPTS):
            turn = self._reader.turn
            if turn is None:
                return False
            try:
                await self._call("turn/interrupt", {"threadId": self._opened(), "turnId": turn})
                return True
            except ExternalError:
                # The program refuses until it has reported the beginning of the turn: 3 of 36, measured.
                if attempt == _INTERRUPTS - 1:
                    raise
            await asyncio.sleep(_INTERRUPT_AGAIN_S)
        return False

    # The connection

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(self._path)) as session:
            async with asyncio.timeout(CONNECT_S):
                socket = await session.ws_connect(
                    "http://localhost/", max_msg_size=self._frame_max, heartbeat=HEARTBEAT_S, autoclose=True
                )
            try:
                self._require_own(socket)
                yield socket
            finally:
                with contextlib.suppress(TimeoutError, aiohttp.ClientError, OSError):
                    async with asyncio.timeout(1.0):
                        await socket.close()

    def _require_own(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        """Refuse the program of another user, to whom a link in the socket's place may lead."""
        uid = peer_of(socket.get_extra_info("socket")).uid
        if uid not in (os.geteuid(), 0):
            raise OSError(f"the socket belongs to a process of user {uid}")

    async def _hold(
        self, socket: aiohttp.ClientWebSocketResponse, conversation: str | None, backoff: Backoff
    ) -> str:
        """Read until the connection ends, and return the reason."""
        self._socket, self._problem = socket, ""
        async with asyncio.TaskGroup() as tasks:
            greeting = tasks.create_task(self._greet(conversation, backoff), name="greet codex")
            reason = await self._read(socket, tasks)
            reason = self._problem or reason
            self._ready.clear()  # a call waits for the next connection
            greeting.cancel()
            self._fail_calls(reason)
        return reason

    async def _greet(self, conversation: str | None, backoff: Backoff) -> None:
        """Introduce sm, and resume the conversation. A program that does not answer loses the connection."""
        socket = self._socket
        try:
            await self._call("initialize", _CLIENT, greets=True)
            await self._write({"method": "initialized"})
            if conversation is not None:
                await self._resume(conversation)
        except (ExternalError, WaitTimeout) as error:
            self._problem = str(error)
            if socket is not None:
                await socket.close()
            return
        backoff.reset()
        self._ready.set()

    async def _resume(self, conversation: str) -> None:
        """Follow a conversation, and read its last turn and items, which prove messages that had no receipt."""
        params = {"threadId": conversation}
        await self._call("thread/resume", {**params, "excludeTurns": True}, greets=True)
        for method, limit in (("thread/turns/list", 1), ("thread/items/list", ITEMS_READ)):
            await self._call(method, {**params, "limit": limit, "sortDirection": "desc"}, greets=True)

    async def _read(self, socket: aiohttp.ClientWebSocketResponse, tasks: asyncio.TaskGroup) -> str:
        """Read until the connection ends, and return the reason."""
        async for message in socket:
            match message.type:
                case aiohttp.WSMsgType.TEXT | aiohttp.WSMsgType.BINARY:
                    self._received(decoded(message.data), tasks)
                case aiohttp.WSMsgType.ERROR:
                    return f"the connection failed: {message.data}"
                case _:
                    pass
            if len(self._backlog) >= self._backlog_max:
                return f"nobody took {self._backlog_max} words"
        return "the program closed the connection"

    def _received(self, value: object, tasks: asyncio.TaskGroup) -> None:
        frame = read_frame(value)
        said = self._reader.received(value, self._clock())
        self._say(said)
        if isinstance(frame, RpcResult | RpcFailure):
            answer = self._answers.pop(frame.id, None)
            if answer is not None and not answer.done():
                answer.set_result(frame)
        for event in said:
            if isinstance(event, ConversationStarted) and event.by is Answerer.TERMINAL:
                self._unfollowed = event.id
        # A conversation without a turn cannot be resumed: try again at its next state.
        if self._unfollowed is not None and any(isinstance(event, StateUpdate) for event in said):
            unfollowed, self._unfollowed = self._unfollowed, None
            tasks.create_task(self._follow(unfollowed), name="follow a conversation of codex")

    async def _follow(self, conversation: str) -> None:
        try:
            await self._resume(conversation)
        except (ExternalError, WaitTimeout):
            if self.conversation == conversation:
                self._unfollowed = conversation

    def _lose(self, reason: str) -> None:
        self._socket = None
        self._ready.clear()
        self._fail_calls(reason)
        said = self._reader.lost(self._clock(), reason)
        if said:
            log.info("the link to codex was lost", extra={"sm_reason": reason})
        self._say(said)

    def _fail_calls(self, reason: str) -> None:
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(ExternalError(f"the link to codex was lost: {reason}"))
        self._answers.clear()

    def _say(self, events: Sequence[LinkEvent]) -> None:
        if events:
            self._backlog.extend(events)
            self._filled.set()

    # Calls

    def _opened(self) -> str:
        if self.conversation is None:
            raise ExternalError("codex has no conversation")
        return self.conversation

    async def _call(
        self, method: str, params: Mapping[str, object], *, greets: bool = False
    ) -> Mapping[str, object]:
        """Send a request, and return its result. `greets`: also before the program has accepted the link."""
        if not greets:
            await self._connection()
        self._next_id += 1
        id = self._next_id
        answer: asyncio.Future[RpcResult | RpcFailure] = asyncio.get_running_loop().create_future()
        self._answers[id] = answer
        try:
            await self._write({"id": id, "method": method, "params": params})
            async with asyncio.timeout(self._call_s):
                frame = await answer
        except TimeoutError:
            raise WaitTimeout(f"codex did not answer {method} within {self._call_s:g} s") from None
        finally:
            self._answers.pop(id, None)
        if isinstance(frame, RpcFailure):
            raise ExternalError(f"codex refused {method}: {frame.message}")
        return frame.value

    async def _connection(self) -> None:
        """Wait until the program has accepted the link."""
        try:
            async with asyncio.timeout(self._call_s):
                await self._ready.wait()
        except TimeoutError:
            raise ExternalError("the link to codex is not connected") from None

    async def _write(self, frame: Mapping[str, object]) -> None:
        socket = self._socket
        if socket is None or socket.closed:
            raise ExternalError("the link to codex is not connected")
        # Before the program can answer: it may be faster than the next line.
        self._reader.sent(frame, self._clock())
        try:
            async with asyncio.timeout(SEND_S):
                await socket.send_str(json.dumps(frame))
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            await socket.close()
            raise WaitTimeout(f"codex does not read its socket: {str(error) or 'it is full'}") from None
