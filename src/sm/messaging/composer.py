"""Types a message into the input box of an agent's terminal: submits it at most once, and never into a dialog.

The driver presses Enter only if an open box holds the message and nothing else, and only while no tool is about to
begin: a key in a dialog would answer it. If the agent has accepted a message and the box still shows it, the box holds
a copy: claude leaves one when the Enter comes at the end of a turn. The driver removes the copy.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from sm.errors import NoServer, NoTerminal, TerminalBusy, TerminalError
from sm.messaging import composer_timing as timing
from sm.messaging.composer_gate import ComposerGate
from sm.messaging.composer_state import (
    ARRIVED,
    ComposerDelivery,
    ComposerState,
    ComposerTerminal,
    DeliveryEnd,
    DeliveryOutcome,
    DialogMonitor,
    Proof,
    held,
    unconfirmed,
)
from sm.messaging.input_box import InputBox
from sm.messaging.urgent_interrupt import UrgentInterrupt
from sm.monitor.listeners import AgentListener

log = logging.getLogger(__name__)

_MAY_APPEAR = (DeliveryEnd.UNCONFIRMED, DeliveryEnd.HELD)
"""Ends of deliveries after a paste whose text the box may still show later."""


_LEFT = "the daemon ended while it typed the message"


class ComposerDriver(AgentListener):
    """Delivers to input boxes, one message of a session at a time."""

    def __init__(self, terminal: ComposerTerminal, monitor: DialogMonitor) -> None:
        self._box = InputBox(terminal, monitor)
        self._gate = ComposerGate(self._box, monitor)
        self._urgent = UrgentInterrupt(self._box, monitor)
        self._monitor = monitor
        self._states: dict[str, ComposerState] = {}

    def forget(self, session_id: str) -> None:
        state = self._states.get(session_id)
        if state is not None and not state.lock.locked():
            del self._states[session_id]

    async def tool_started(self, session_id: str) -> None:
        """Wait a moment for a delivery in progress: the tool may open a dialog after the return of this call.

        After a timeout that delivery presses no Enter until the dialog is gone.
        """
        await self._hold_off(session_id, "a tool is starting")

    async def turn_ending(self, session_id: str) -> None:
        """Wait as `tool_started` does: the next turn begins with the agent's own queue."""
        await self._hold_off(session_id, "a turn is ending")

    async def _hold_off(self, session_id: str, reason: str) -> None:
        state = self._state(session_id)
        try:
            async with asyncio.timeout(timing.TOOL_WAITS_S), state.lock:
                pass
        except TimeoutError:
            state.overtaken = True
        state.rests, state.rests_s = reason, timing.now() + timing.TOOL_SETTLES_S

    @asynccontextmanager
    async def hold_for_interrupt(self, session_id: str) -> AsyncIterator[None]:
        """Hold the box while a caller interrupts the agent: if possible, not between a paste and its Enter.

        The last prompt may come back into the box, so nothing is pasted until it would be visible.
        """
        state, locked = self._state(session_id), False
        try:
            async with asyncio.timeout(timing.TOOL_WAITS_S):
                locked = await state.lock.acquire()
        except TimeoutError:
            state.overtaken = True
        try:
            yield
        finally:
            state.rests, state.rests_s = (
                "the agent was just interrupted",
                timing.now() + timing.RETURNS_WITHIN_S,
            )
            if locked:
                state.lock.release()

    async def deliver(self, delivery: ComposerDelivery) -> DeliveryOutcome:
        """Type the message, and wait for its outcome."""
        state = self._state(delivery.session_id)
        entered = 0
        try:
            async with state.lock:
                state.begin()
                if (outcome := await self._gate.hold_reason(delivery, state)) is not None:
                    return outcome
                await self._monitor.hold_message(delivery.session_id)
                if (outcome := await self._gate.put_aside(delivery, state)) is not None:
                    return outcome
                if not await delivery.begin():
                    return ARRIVED
                # The wait and the write may have taken long.
                if (outcome := await self._gate.hold_reason(delivery, state)) is not None:
                    return outcome
                state.rest = delivery.box_reader.paste_groups(delivery.text)
                await self._box.paste_next(delivery, state)
                entered = await self._enter_when_it_shows(delivery, state)
            not_confirmed = "the message left the input box, but no report confirms that the agent got it"
            outcome = await self._follow(delivery, state, entered, timing.ARRIVES_WITHIN_S, not_confirmed)
            if outcome.end is not DeliveryEnd.HELD:
                state.pastes_lost = 0
            pasted = state.pasted.rstrip() if state.rest else delivery.text
            state.left = pasted if outcome.end in _MAY_APPEAR else ""
            # Among other text the message looks like a person's paste, so it is left to that person.
            state.left_shown = state.shown or ("" if state.mixed else None)
            state.left_until_s = timing.now() + timing.LEFT_COMES_WITHIN_S
            return outcome
        except TerminalBusy as error:
            return held(error.message)
        except (NoTerminal, NoServer) as error:
            end = DeliveryEnd.UNCONFIRMED if state.entered else DeliveryEnd.FAILED
            return DeliveryOutcome(end, error.message)

    async def resume(self, delivery: ComposerDelivery) -> DeliveryOutcome:
        """Finish a delivery of an earlier daemon: the message is entered if the box holds it.

        If the box holds its first groups, the others are pasted before. Otherwise nothing is typed.
        """
        state = self._state(delivery.session_id)
        try:
            async with state.lock:
                state.begin(delivery.box_reader.paste_groups(delivery.text))
            proof = await delivery.proof(timing.LEFT_S)
            if proof is not Proof.NONE:
                await self._finish_arrival(delivery, state, proof)
                return ARRIVED
            return await self._follow(delivery, state, 1, 0.0, _LEFT)
        except TerminalError as error:
            return unconfirmed(f"{_LEFT}; {error.message}")

    def _state(self, session_id: str) -> ComposerState:
        return self._states.setdefault(session_id, ComposerState())

    async def _enter_when_it_shows(self, delivery: ComposerDelivery, state: ComposerState) -> int:
        """Paste the rest of the message, and press Enter when the box shows the whole. The caller holds the lock.

        Stops when the box shows other text, and when a dialog or a tool comes between. Returns the number of Enters.
        """
        until_s, pause_s = timing.now() + timing.SHOWS_WITHIN_S, timing.FIRST_LOOK_S
        while timing.now() < until_s and not state.overtaken:
            if await delivery.proof(pause_s) is not Proof.NONE:
                return 0
            pause_s = timing.LOOK_S
            box = await self._box.look(delivery)
            if box is not None and box.closed is not None:
                return 0
            if box is not None and state.holds_only_message(delivery, box):
                if state.rest:
                    if await self._monitor.blocked_reason(delivery.session_id) is not None or state.overtaken:
                        return 0
                    await self._box.paste_next(delivery, state)
                    until_s, pause_s = timing.now() + timing.SHOWS_WITHIN_S, timing.FIRST_LOOK_S
                    continue
                return 1 if await self._enter(delivery, state, is_drawn=False) else 0
        return 0

    # Enter and evidence

    async def _enter(self, delivery: ComposerDelivery, state: ComposerState, *, is_drawn: bool) -> bool:
        """Press Enter if the box holds only the message. The caller holds the lock. False: Enter was not pressed.

        `is_drawn`: the box shows all keys that a person has pressed.
        """
        pressed = (
            timing.now() >= state.rests_s
            and await delivery.proof(0) is Proof.NONE
            and not await delivery.is_behind_queue()
            and await self._box.is_enterable(delivery, state)
            and (is_drawn or await self._box.is_drawn(delivery))
            and not state.overtaken
            and await self._box.press(delivery, "Enter")
        )
        state.entered |= pressed
        return pressed

    async def _follow(
        self,
        delivery: ComposerDelivery,
        state: ComposerState,
        entered: int,
        arrives_within_s: float,
        not_confirmed: str,
    ) -> DeliveryOutcome:
        """Wait for a proof, or until none can come. `entered`: how often Enter was pressed so far."""
        since_s = timing.now()
        """The time since which the open box has not held the message."""
        again_after_s = timing.AGAIN_OVER_A_DRAFT_S if state.over_a_draft else timing.AGAIN_AFTER_S
        enter_s = since_s + again_after_s if entered and arrives_within_s else since_s
        mixed_s: float | None = None
        alone_s: float | None = None
        was_there = state.seen
        pause_s, unread_s = timing.LOOK_S, since_s
        while True:
            proof = await delivery.proof(pause_s)
            if proof is not Proof.NONE:
                if proof is Proof.OVER and entered:
                    await self._report_typed_words(delivery)
                await self._finish_arrival(delivery, state, proof)
                return ARRIVED
            if delivery.is_gone():
                return DeliveryOutcome(
                    DeliveryEnd.UNCONFIRMED if entered else DeliveryEnd.FAILED, "the process has ended"
                )
            box, now_s = await self._box.look(delivery), timing.now()
            why = await self._monitor.blocked_reason(delivery.session_id)
            pause_s = timing.SLOW_LOOK_S
            if box is None:
                since_s = now_s
                continue
            if why is not None or box.closed is not None:
                # A dialog hides the box and its text.
                await delivery.explain(delivery.busy_reason(why or box.closed or ""))
                if why is None:
                    await self._box.redraw(delivery, state, box, timing.GARBLED_S)
                since_s = now_s
                continue
            if state.left_groups and box.draft and not state.rest:
                state.take_up(delivery, box)
            is_ours = state.holds_only_message(delivery, box)
            state.mixed |= bool(box.draft) and not is_ours
            if is_ours:
                since_s, mixed_s, pause_s, was_there = now_s, None, timing.LOOK_S, True
                alone_s = alone_s or now_s
                if state.rest:
                    async with state.lock:
                        state.overtaken = False
                        if now_s >= state.rests_s and await self._box.is_enterable(delivery, state):
                            await self._box.paste_next(delivery, state)
                            state.left_groups = ()
                    continue
                if now_s < enter_s:
                    continue
                if entered >= timing.ENTERS_MAX:
                    await self._box.clear(delivery, state)
                    return unconfirmed(
                        f"the message was still in the input box after {entered} presses of Enter, and sm removed it"
                    )
                async with state.lock:
                    state.overtaken = False
                    is_drawn = now_s - alone_s >= timing.MIXED_S
                    if await self._enter(delivery, state, is_drawn=is_drawn):
                        entered, enter_s = entered + 1, timing.now() + again_after_s
                        arrives_within_s = max(arrives_within_s, timing.ARRIVES_WITHIN_S)
                continue
            alone_s = None
            if delivery.box_reader.contains_message(box.draft, delivery.text):
                since_s, mixed_s, was_there = now_s, mixed_s or now_s, True
                await delivery.explain("somebody is typing in the input box")
                if now_s - mixed_s >= timing.MIXED_S and state.left_groups:
                    return unconfirmed(
                        f"{_LEFT}; the input box holds the message or a part of it, and perhaps other text"
                    )
                if now_s - mixed_s >= timing.MIXED_S:
                    what = "a part of the message" if state.rest else "the message"
                    return unconfirmed(f"{what} is in the input box, together with text that somebody typed")
                continue
            pause_s = timing.LOOK_S
            if entered and now_s - since_s >= arrives_within_s:
                return unconfirmed(not_confirmed)
            if entered:
                continue
            if not (box.draft or was_there) and now_s - since_s >= timing.LOST_AFTER_S:
                if await self._box.has_unread_input(delivery):
                    unread_s, pause_s = now_s, timing.SLOW_LOOK_S
                elif now_s - unread_s >= timing.LOST_AFTER_S and state.pastes_lost < timing.PASTES_MAX:
                    state.pastes_lost += 1
                    return held("the input box lost the text; sm pastes it again", timing.LOOK_S)
            if now_s - since_s >= (
                timing.SHOWS_WITHIN_S if box.draft or was_there else timing.SHOWS_AT_ALL_S
            ):
                shows = "no longer shows" if was_there else "does not show"
                shows = "shows other text than" if box.draft and not was_there else shows
                return unconfirmed(f"the input box {shows} the pasted message; sm did not press Enter")

    async def _find_refusal(self, delivery: ComposerDelivery) -> None:
        """Wait until the agent's queue has the message, or a hook of the user has refused it."""
        until_s = timing.now() + timing.REFUSED_WITHIN_S
        while await delivery.lacks_queue_entry():
            refusal = await self._box.refusal(delivery)
            if refusal is not None or timing.now() >= until_s:
                await delivery.refuse(refusal)
                return

    async def _report_typed_words(self, delivery: ComposerDelivery) -> None:
        """Tell the person at the terminal which words the Enter submitted: they were typed right before it."""
        line = delivery.typed_words()
        if not line:
            return
        with suppress(TerminalError):
            await self._box.show_line(delivery, line)
            await asyncio.sleep(timing.QUIET_S)  # the next key of the person removes the line
            await self._box.show_line(delivery, line)

    async def _finish_arrival(self, delivery: ComposerDelivery, state: ComposerState, proof: Proof) -> None:
        """Interrupt for an urgent message, and remove copies from the box. An error cannot undo the arrival."""
        try:
            key = delivery.interrupt
            if (
                key is not None
                and proof is not Proof.OVER
                and await delivery.is_in_queue()
                and await self._urgent.interrupt(delivery, state, key)
            ):
                return
            if key is None and proof is Proof.QUEUED:
                # Until then, a hook of the user may return the message to the box.
                await delivery.is_in_queue()
            await asyncio.sleep(delivery.box_reader.settle_s)
            await self._box.clear(delivery, state)
            if proof is Proof.QUEUED:
                await self._find_refusal(delivery)
        except TerminalError as error:
            log.warning(
                "could not clear the input box: %s", error.message, extra={"sm_session": delivery.session_id}
            )
