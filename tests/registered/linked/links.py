"""The links of `linked`: connections to programs that a test plays, by the id of the session.

A program outlives the daemon, as a real one does. Its newest link is that of the daemon that runs.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from sm.errors import IllegalState
from sm.providers.links import (
    AgentLink,
    LinkAnswer,
    LinkEvent,
    LinkOpener,
    LinkTarget,
    MessageUpdate,
    Receipt,
    RequestId,
    RequestOpened,
    StateUpdate,
)


@dataclass(frozen=True)
class SentText:
    text: str
    id: str
    waits: bool


@dataclass
class LinkedProgram:
    """The program of one session."""

    is_up: bool = True
    """Accepts links."""
    is_deaf: bool = False
    """Accepts links, and then takes no call."""
    refuses: bool = False
    """Refuses each call."""
    tells: bool = True
    """Says so with a receipt of the message."""
    is_mute: bool = False
    """Closes a request that gets an answer, and tells nobody."""
    is_silent: bool = False
    """Says nothing on a new link."""
    state: StateUpdate | None = None
    """The last one that it said, with which a new link begins."""
    requests: dict[RequestId, RequestOpened] = field(default_factory=dict)
    """The open ones, with which a new link begins."""
    conversation: set[str] = field(default_factory=set)
    """The ids of the messages in its conversation."""
    never: set[str] = field(default_factory=set)
    """The ids of messages that its conversation certainly does not get."""
    sent: list[SentText] = field(default_factory=list)
    answers: list[tuple[RequestId, LinkAnswer]] = field(default_factory=list)
    orders: list[str] = field(default_factory=list)
    """Interrupts and messages in their order."""
    targets: list[LinkTarget] = field(default_factory=list)
    link: "PlayedLink | None" = None

    def say(self, *events: LinkEvent) -> None:
        """Tell the daemon, if it listens."""
        for event in events:
            if isinstance(event, StateUpdate):
                self.state = event
            if isinstance(event, MessageUpdate) and event.receipt is Receipt.SUBMITTED:
                self.conversation.add(event.id)
            if self.link is not None:
                self.link.put(event)

    def lose(self) -> None:
        """Close the connection, and accept no other."""
        self.is_up = False
        if self.link is not None:
            self.link.lose()
            self.link = None


PROGRAMS: dict[str, LinkedProgram] = {}


class PlayedLink(AgentLink):
    def __init__(self, program: LinkedProgram) -> None:
        self._program = program
        self._events: asyncio.Queue[LinkEvent | None] = asyncio.Queue()
        self._is_lost = False

    def put(self, event: LinkEvent) -> None:
        self._events.put_nowait(event)

    def lose(self) -> None:
        self._is_lost = True
        self._events.put_nowait(None)

    async def events(self) -> AsyncIterator[LinkEvent]:
        while (event := await self._events.get()) is not None:
            yield event

    async def send(self, text: str, id: str, *, waits: bool) -> None:
        if self._program.refuses and self._program.tells:
            self.put(MessageUpdate(id, Receipt.NOT_DELIVERED, time.time(), "not now"))
        await self._check()
        self._program.sent.append(SentText(text, id, waits))
        self._program.orders.append("queue" if waits else "send")

    async def answer(self, request: RequestId, answer: LinkAnswer) -> None:
        await self._check()
        self._program.answers.append((request, answer))
        if self._program.is_mute:
            del self._program.requests[request]

    async def interrupt(self) -> None:
        await self._check()
        self._program.orders.append("interrupt")

    async def close(self) -> None:
        if self._program.link is self:
            self._program.link = None

    async def _check(self) -> None:
        if self._program.is_deaf:
            await asyncio.Event().wait()
        if self._program.refuses:
            self._program.orders.append("refuse")
            raise IllegalState("not now")
        if self._is_lost or self._program.link is not self:
            raise ConnectionError("the program is away")


class PlayedOpener(LinkOpener):
    async def open(self, target: LinkTarget) -> AgentLink:
        program = PROGRAMS.setdefault(target.session_id, LinkedProgram())
        if not program.is_up:
            raise ConnectionError("the program is away")
        program.targets.append(target)
        link = program.link = PlayedLink(program)
        if program.is_silent:
            return link
        for event in program.requests.values():
            link.put(event)
        if program.state is not None:
            link.put(program.state)
        for id in target.unproven:
            if id in program.conversation:
                link.put(MessageUpdate(id, Receipt.SUBMITTED, time.time()))
            elif id in program.never:
                link.put(MessageUpdate(id, Receipt.NOT_DELIVERED, time.time(), "not in the conversation"))
        return link
