"""Carries out the instructions of the composer's machine, and tells the machine what happened."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import field
from functools import partial
from inspect import isawaitable
from typing import Any, Protocol

from sm.core.dataclass import dataclass
from sm.errors import TerminalError
from sm.messaging.composer import instructions as to
from sm.messaging.composer import timing
from sm.messaging.composer.box import InputBox, TypedMessage
from sm.messaging.composer.instructions import (
    CarriedOut,
    DeliveryOutcome,
    Disturbance,
    Instruction,
    Order,
    Proof,
    TerminalFailed,
)
from sm.messaging.composer.machine import ComposerMachine
from sm.monitor.listeners import AgentListener
from sm.providers.base import BoxReader, PromptRefusal
from sm.terminals.base import Busy

log = logging.getLogger(__name__)


class ComposerDelivery(Protocol):
    """One message on its way to an input box, and its record."""

    session_id: str
    terminal: str
    text: str
    """The whole text, with its header. A command has none."""
    box_reader: BoxReader
    interrupt: str | None
    """The key that interrupts the agent as soon as it has the message, or None if the message is not urgent."""

    async def begin(self) -> bool:
        """Record the start of the delivery. Returns False if the message must not be typed any more."""

    async def explain(self, why: str) -> None:
        """Record why the delivery is held up."""

    async def message_in_draft(self, draft: str) -> str | None:
        """The rendered text of the earlier message that `draft` shows, or None if the draft is no message.

        claude puts an interrupted prompt without an answer back into the box, and may leave a copy of an accepted
        one. Records the changed state of the message.
        """

    def busy_reason(self, why: str) -> str:
        """The reason for `explain`: the agent accepts no text because of `why`."""

    def is_gone(self) -> bool:
        """True if the agent's process is gone: its terminal may belong to another program."""

    async def agent_has_unread_input(self) -> bool:
        """True if the agent's own terminal holds input: in a container, it is not that of the pane."""

    async def is_behind_queue(self) -> bool:
        """True while an idle agent has not begun the turn that reads its own queue: an Enter would overtake that."""

    def typed_words(self) -> str:
        """The line that tells a person which of their words arrived with the message, once, or empty if none did."""

    async def lacks_queue_entry(self) -> bool:
        """Return whether only a hook has reported that the message waits in the agent's queue.

        Waits a moment for the agent to write where the message is.
        """

    async def refuse(self, refusal: PromptRefusal | None) -> None:
        """Record that a hook of the user refused the message, or with None, that it may have and the queue lacks it."""

    async def is_in_queue(self) -> bool:
        """True if the message waits in the agent's own queue for the end of the turn in which it was entered.

        Waits until the transcript says where the message is.
        """

    async def proof(self, within_s: float) -> Proof:
        """The evidence for the message. Waits up to `within_s` for evidence."""


class DialogMonitor(Protocol):
    """The part of the monitor that the composer needs."""

    async def blocked_reason(self, session_id: str) -> str | None:
        """The reason why the agent waits for an answer now, or None if no dialog is known."""

    async def is_working(self, session_id: str) -> bool:
        """True if the agent works on a turn now."""

    def awaits_first_turn(self, session_id: str) -> bool:
        """True until an agent that was started with a prompt has accepted the prompt and drawn its box anew."""

    async def hold_message(self, session_id: str) -> None:
        """Return when a message may begin a turn: the first one of an agent without hooks waits for its tools."""


class ComposerTerminal(Protocol):
    """The part of `Terminals` that the composer needs."""

    async def capture_styled(self, name: str) -> list[str]: ...

    async def paste(self, name: str, *texts: str) -> Busy | None: ...

    async def press(self, name: str, key: str) -> Busy | None: ...

    async def key_pause_s(self, name: str) -> float: ...

    async def show_line(self, name: str, text: str) -> None: ...

    async def has_unread_input(self, name: str) -> bool: ...


@dataclass
class _Session:
    box: InputBox = field(default_factory=InputBox)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held from the last look before the paste until Enter is pressed."""


class ComposerDriver(AgentListener):
    """Delivers to input boxes, one message of a session at a time."""

    def __init__(self, terminal: ComposerTerminal, monitor: DialogMonitor) -> None:
        self._terminal = terminal
        self._monitor = monitor
        self._sessions: dict[str, _Session] = {}

    def forget(self, session_id: str) -> None:
        session = self._sessions.get(session_id)
        if session is not None and not session.lock.locked():
            del self._sessions[session_id]

    async def tool_started(self, session_id: str) -> None:
        """Wait a moment for a delivery in progress: the tool may open a dialog after the return of this call.

        After a timeout that delivery presses no Enter until the dialog is gone.
        """
        async with self._hold(session_id, Disturbance.TOOL_STARTS):
            pass

    async def turn_ending(self, session_id: str) -> None:
        """Wait as `tool_started` does: the next turn begins with the agent's own queue."""
        async with self._hold(session_id, Disturbance.TURN_ENDS):
            pass

    @asynccontextmanager
    async def hold_for_interrupt(self, session_id: str) -> AsyncIterator[None]:
        """Hold the box while a caller interrupts the agent: if possible, not between a paste and its Enter.

        The last prompt may come back into the box, so nothing is pasted until it would be visible.
        """
        async with self._hold(session_id, Disturbance.INTERRUPTED):
            yield

    @asynccontextmanager
    async def _hold(self, session_id: str, disturbance: Disturbance) -> AsyncIterator[None]:
        session, locked = self._session(session_id), False
        try:
            async with asyncio.timeout(timing.TOOL_WAITS_S):
                locked = await session.lock.acquire()
        except TimeoutError:
            session.box.overtaken = True
        try:
            yield
        finally:
            session.box.disturb(disturbance, _now_s())
            if locked:
                session.lock.release()

    async def deliver(self, delivery: ComposerDelivery) -> DeliveryOutcome:
        """Type the message, and wait for its outcome."""
        return await self._run(delivery, is_left=False)

    async def resume(self, delivery: ComposerDelivery) -> DeliveryOutcome:
        """Finish a delivery of an earlier daemon (`ComposerMachine`)."""
        return await self._run(delivery, is_left=True)

    def _session(self, session_id: str) -> _Session:
        return self._sessions.setdefault(session_id, _Session())

    async def _run(self, delivery: ComposerDelivery, *, is_left: bool) -> DeliveryOutcome:
        session = self._session(delivery.session_id)
        message = TypedMessage(delivery.text, delivery.box_reader, delivery.interrupt)
        machine = ComposerMachine(session.box, message, is_left=is_left)
        event: CarriedOut | TerminalFailed = CarriedOut(_now_s())
        async with AsyncExitStack() as held:
            methods = self._methods(delivery, session.lock, held)
            while isinstance(instruction := machine.step(event), Instruction):
                try:
                    value = methods[instruction.order](*instruction.arguments)
                    value = await value if isawaitable(value) else value
                    event = CarriedOut(_now_s(), value)
                except TerminalError as error:
                    event = TerminalFailed(_now_s(), error)
        return instruction

    def _methods(
        self, delivery: ComposerDelivery, lock: asyncio.Lock, held: AsyncExitStack
    ) -> Mapping[Order[Any, Any], Callable[..., object]]:
        """The method for each order. It returns the value of the event, or an awaitable of the value."""
        terminal, monitor = self._terminal, self._monitor
        name, session_id = delivery.terminal, delivery.session_id
        return {
            to.LOOK: partial(terminal.capture_styled, name),
            to.PASTE: lambda pieces: terminal.paste(name, *pieces),
            to.PRESS: partial(terminal.press, name),
            to.SHOW_LINE: partial(terminal.show_line, name),
            to.KEY_PAUSE: partial(terminal.key_pause_s, name),
            to.PANE_HAS_UNREAD_INPUT: partial(terminal.has_unread_input, name),
            to.HOLD_BOX: partial(held.enter_async_context, lock),
            to.RELEASE_BOX: held.aclose,
            to.SLEEP: asyncio.sleep,
            to.AWAIT_TURN: partial(monitor.hold_message, session_id),
            to.BLOCKED_REASON: partial(monitor.blocked_reason, session_id),
            to.AWAITS_FIRST_TURN: partial(monitor.awaits_first_turn, session_id),
            to.IS_WORKING: partial(monitor.is_working, session_id),
            to.AWAIT_PROOF: delivery.proof,
            to.AGENT_HAS_UNREAD_INPUT: delivery.agent_has_unread_input,
            to.IS_GONE: delivery.is_gone,
            to.IS_BEHIND_QUEUE: delivery.is_behind_queue,
            to.IS_IN_QUEUE: delivery.is_in_queue,
            to.LACKS_QUEUE_ENTRY: delivery.lacks_queue_entry,
            to.MESSAGE_IN_DRAFT: delivery.message_in_draft,
            to.BUSY_REASON: delivery.busy_reason,
            to.TYPED_WORDS: delivery.typed_words,
            to.BEGIN: delivery.begin,
            to.EXPLAIN: delivery.explain,
            to.REFUSE: delivery.refuse,
            to.WARN: partial(log.warning, "%s", extra={"sm_session": session_id}),
        }


def _now_s() -> float:
    return asyncio.get_running_loop().time()
