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
from sm.messaging.input_box import InputBox, is_beginning
from sm.monitor.listeners import AgentListener
from sm.providers.base import Box

log = logging.getLogger(__name__)

_MAY_APPEAR = (DeliveryEnd.UNCONFIRMED, DeliveryEnd.HELD)
"""Ends of deliveries after a paste whose text the box may still show later."""


class ComposerDriver(AgentListener):
    """Delivers to input boxes, one message of a session at a time."""

    def __init__(self, terminal: ComposerTerminal, monitor: DialogMonitor) -> None:
        self._box = InputBox(terminal)
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
        state.rests, state.rests_s = reason, _now() + timing.TOOL_SETTLES_S

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
            state.rests, state.rests_s = "the agent was just interrupted", _now() + timing.RETURNS_WITHIN_S
            if locked:
                state.lock.release()

    async def deliver(self, delivery: ComposerDelivery) -> DeliveryOutcome:
        """Type the message, and wait for its outcome."""
        state = self._state(delivery.session_id)
        entered = 0
        try:
            async with state.lock:
                state.overtaken = state.over_a_draft = state.mixed = False
                state.shown = ""
                outcome = await self._hold_reason(delivery, state) or await self._put_aside(delivery, state)
                if outcome is not None:
                    return outcome
                if not await delivery.begin():
                    return ARRIVED
                # The write may have taken long.
                if (outcome := await self._hold_reason(delivery, state)) is not None:
                    return outcome
                await self._box.paste(delivery)
                entered = await self._enter_when_it_shows(delivery, state)
            not_confirmed = "the message left the input box, but no report confirms that the agent got it"
            outcome = await self._follow(delivery, state, entered, timing.ARRIVES_WITHIN_S, not_confirmed)
            if outcome.end is not DeliveryEnd.HELD:
                state.pastes_lost = 0
            state.left = delivery.text if outcome.end in _MAY_APPEAR else ""
            # Among other text the message looks like a person's paste, so it is left to that person.
            state.left_shown = state.shown or ("" if state.mixed else None)
            state.left_until_s = _now() + timing.LEFT_COMES_WITHIN_S
            return outcome
        except TerminalBusy as error:
            return held(error.message)
        except (NoTerminal, NoServer) as error:
            return DeliveryOutcome(DeliveryEnd.UNCONFIRMED if entered else DeliveryEnd.FAILED, error.message)

    async def resume(self, delivery: ComposerDelivery) -> DeliveryOutcome:
        """Finish a delivery of an earlier daemon: the message is entered if the box holds it, and never pasted."""
        state = self._state(delivery.session_id)
        left = "the daemon ended while it typed the message"
        try:
            proof = await delivery.proof(timing.LEFT_S)
            if proof is not Proof.NONE:
                await self._finish_arrival(delivery, state, proof)
                return ARRIVED
            return await self._follow(delivery, state, 1, 0.0, left)
        except TerminalError as error:
            return unconfirmed(f"{left}; {error.message}")

    def _state(self, session_id: str) -> ComposerState:
        return self._states.setdefault(session_id, ComposerState())

    async def _hold_reason(self, delivery: ComposerDelivery, state: ComposerState) -> DeliveryOutcome | None:
        """The reason to type nothing now; None: the box is empty, or holds a draft that may be put aside."""
        rest_s = state.rests_s - _now()
        if rest_s > 0:
            return held(delivery.busy_reason(state.rests), rest_s)
        if (why := await self._monitor.blocked_reason(delivery.session_id)) is not None:
            return held(delivery.busy_reason(why))
        if self._monitor.awaits_first_turn(delivery.session_id):
            # The agent draws its box anew after it has accepted the prompt: an earlier paste would be lost.
            return held(
                delivery.busy_reason("the agent has not accepted its first prompt"),
                timing.FIRST_TURN_LOOK_S,
            )
        if await delivery.is_behind_queue():
            return held(
                delivery.busy_reason("the agent takes the messages in its own queue first"),
                timing.DRAFT_LOOK_S,
            )
        box = await self._box.look(delivery)
        if box is None or delivery.is_gone():
            return held("the terminal does not respond")
        if box.closed is not None:
            await self._redraw(delivery, state, box, timing.GARBLED_S)
            return held(delivery.busy_reason(box.closed))
        state.garbled_s = None
        state.over_a_draft |= box.stashed  # by an earlier delivery or by a person
        if state.left_shown is None and _now() >= state.left_until_s:
            state.left_shown = ""
        if state.left and delivery.box_reader.shows_message(box.draft, state.left, state.left_shown):
            state.left_shown = state.left_shown or box.draft
            await self._remove(delivery, state, state.left, box.draft)
            return held("sm is clearing an undelivered message from the input box", timing.DRAFT_LOOK_S)
        if not box.draft:
            state.draft = state.removing = ""
            if not await self._box.is_drawn(delivery):
                return held("somebody is typing in the input box", timing.DRAFT_LOOK_S)
            return None
        if state.removing and (
            box.draft == state.removing_shown or is_beginning(box.draft, state.removing)
        ):  # the removal ended early
            await self._remove(delivery, state, state.removing, state.removing_shown)
            return held("sm is clearing a message that came back into the input box", timing.DRAFT_LOOK_S)
        if box.draft != state.draft:
            state.draft, state.draft_since_s = box.draft, _now()
            if (text := await delivery.message_in_draft(box.draft)) is not None:
                await self._remove(delivery, state, text, box.draft)
                return held("sm is clearing a message that came back into the input box", timing.DRAFT_LOOK_S)
        if box.draft != state.put_aside and _now() - state.draft_since_s < timing.QUIET_S:
            return held("somebody is typing in the input box", timing.DRAFT_LOOK_S)
        # A second draft that is put aside would replace the first.
        if delivery.box_reader.stash_key is None or box.stashed:
            return held("the input box holds a draft that cannot be set aside")
        return None

    async def _put_aside(self, delivery: ComposerDelivery, state: ComposerState) -> DeliveryOutcome | None:
        """Put a person's draft aside. The agent restores it when the message is sent."""
        if not state.draft:
            return None
        assert delivery.box_reader.stash_key is not None
        await self._box.press(delivery, delivery.box_reader.stash_key)
        until_s = _now() + timing.PUT_ASIDE_WITHIN_S
        while _now() < until_s:
            await asyncio.sleep(timing.LOOK_S)
            box = await self._box.look(delivery)
            if box is not None and box.closed is None and not box.draft:
                state.draft, state.put_aside, state.over_a_draft = "", state.draft, True
                return None
        return held("somebody is typing in the input box", timing.DRAFT_LOOK_S)

    async def _enter_when_it_shows(self, delivery: ComposerDelivery, state: ComposerState) -> int:
        """Press Enter when the box shows the message. The caller holds the lock. Returns the number of Enters: 0, 1."""
        until_s, pause_s = _now() + timing.SHOWS_WITHIN_S, timing.FIRST_LOOK_S
        while _now() < until_s and not state.overtaken:
            if await delivery.proof(pause_s) is not Proof.NONE:
                return 0
            pause_s = timing.LOOK_S
            box = await self._box.look(delivery)
            if box is not None and box.closed is not None:
                return 0
            if box is not None and self._holds_only_message(delivery, state, box):
                return 1 if await self._enter(delivery, state, is_drawn=False) else 0
        return 0

    # Enter and evidence

    async def _enter(self, delivery: ComposerDelivery, state: ComposerState, *, is_drawn: bool) -> bool:
        """Press Enter if the box holds only the message. The caller holds the lock. False: Enter was not pressed.

        `is_drawn`: the box shows all keys that a person has pressed.
        """
        return (
            _now() >= state.rests_s
            and await delivery.proof(0) is Proof.NONE
            and not await delivery.is_behind_queue()
            and await self._is_enterable(delivery, state)
            and (is_drawn or await self._box.is_drawn(delivery))
            and not state.overtaken
            and await self._box.press(delivery, "Enter")
        )

    async def _follow(
        self,
        delivery: ComposerDelivery,
        state: ComposerState,
        entered: int,
        arrives_within_s: float,
        not_confirmed: str,
    ) -> DeliveryOutcome:
        """Wait for a proof, or until none can come. `entered`: how often Enter was pressed so far."""
        since_s = _now()
        """The time since which the open box has not held the message."""
        again_after_s = timing.AGAIN_OVER_A_DRAFT_S if state.over_a_draft else timing.AGAIN_AFTER_S
        enter_s = since_s + again_after_s if entered and arrives_within_s else since_s
        mixed_s: float | None = None
        alone_s: float | None = None
        was_there = bool(state.shown)
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
            box, now_s = await self._box.look(delivery), _now()
            why = await self._monitor.blocked_reason(delivery.session_id)
            pause_s = timing.SLOW_LOOK_S
            if box is None:
                since_s = now_s
                continue
            if why is not None or box.closed is not None:
                # A dialog hides the box and its text.
                await delivery.explain(delivery.busy_reason(why or box.closed or ""))
                if why is None:
                    await self._redraw(delivery, state, box, timing.GARBLED_S)
                since_s = now_s
                continue
            is_ours = self._holds_only_message(delivery, state, box)
            state.mixed |= bool(box.draft) and not is_ours
            if is_ours:
                since_s, mixed_s, pause_s, was_there = now_s, None, timing.LOOK_S, True
                alone_s = alone_s or now_s
                if now_s < enter_s:
                    continue
                if entered >= timing.ENTERS_MAX:
                    await self._clear(delivery, state)
                    return unconfirmed(
                        f"the message was still in the input box after {entered} presses of Enter, and sm removed it"
                    )
                async with state.lock:
                    state.overtaken = False
                    is_drawn = now_s - alone_s >= timing.MIXED_S
                    if await self._enter(delivery, state, is_drawn=is_drawn):
                        entered, enter_s = entered + 1, _now() + again_after_s
                continue
            alone_s = None
            if delivery.box_reader.contains_message(box.draft, delivery.text):
                since_s, mixed_s, was_there = now_s, mixed_s or now_s, True
                await delivery.explain("somebody is typing in the input box")
                if now_s - mixed_s >= timing.MIXED_S:
                    return unconfirmed(
                        "the message is in the input box, together with text that somebody typed"
                    )
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
            key = delivery.interrupt if proof is Proof.QUEUED else None
            if key is not None and await self._interrupt(delivery, state, key):
                return
            await asyncio.sleep(delivery.box_reader.settle_s)
            await self._clear(delivery, state)
        except TerminalError as error:
            log.warning(
                "could not clear the input box: %s", error.message, extra={"sm_session": delivery.session_id}
            )

    async def _interrupt(self, delivery: ComposerDelivery, state: ComposerState, key: str) -> bool:
        """End the turn that keeps an urgent message waiting.

        The message must be in the agent's own queue: then claude continues with the queue, and the interrupted work
        stays in the conversation. An Escape with an empty queue would take a prompt without an answer out of the
        conversation and put it back into the box.

        If the turn has just ended, Escape interrupts the turn of the message itself. Then the message comes back into
        the box without having reached the model, and is entered again. Returns True if the box shows the message only
        because a person recalled it.
        """
        for _ in range(timing.TOOLS_WAITED_FOR):
            await asyncio.sleep(max(0.0, state.rests_s - _now()))
        async with state.lock:
            state.overtaken = False
            box = await self._box.look(delivery)
            if box is None or box.closed is not None or delivery.is_gone():
                return False  # Escape would answer an open dialog: the message stays in the queue
            if (
                await self._monitor.blocked_reason(delivery.session_id) is not None
                or await delivery.proof(0) is not Proof.QUEUED
            ):
                return False
            was_empty = not box.draft
            await self._box.press(delivery, key)
        until_s, enter_s, entered = _now() + timing.RETURNS_WITHIN_S, 0.0, 0
        shown_s: float | None = None
        is_recalled = False
        effect_until_s = _now() + timing.INTERRUPTED_WITHIN_S
        while _now() < until_s and entered < timing.ENTERS_MAX:
            await asyncio.sleep(timing.LOOK_S)
            proof = await delivery.proof(0)
            if proof is Proof.OVER:
                return was_empty and not entered
            queued = proof is Proof.QUEUED
            box = await self._box.look(delivery)
            if (queued or box is None or box.unknown) and _now() < effect_until_s:
                until_s = max(until_s, _now() + timing.RETURNS_WITHIN_S)
            if (
                box is None
                or delivery.is_gone()
                or await self._monitor.blocked_reason(delivery.session_id) is not None
            ):
                continue
            await self._redraw(delivery, state, box, 0.0)
            if not was_empty or box.closed is not None or not self._holds_only_message(delivery, state, box):
                shown_s, is_recalled = None, False
                continue
            shown_s = _now() if shown_s is None else shown_s
            until_s = max(until_s, shown_s + timing.QUIET_S)
            if _now() < max(enter_s, shown_s + timing.PUT_BACK_SETTLES_S):
                continue
            is_recalled = await self._monitor.is_working(delivery.session_id)
            if is_recalled:  # or the agent has not published yet that the interrupt ended its turn
                continue
            if await delivery.proof(0) is Proof.OVER:  # the turn has ended, before the agent published it
                continue
            async with state.lock:
                if await self._is_enterable(delivery, state) and await self._box.press(delivery, "Enter"):
                    entered, enter_s = entered + 1, _now() + timing.AGAIN_AFTER_S
                    until_s = enter_s + timing.RETURNS_WITHIN_S
        return is_recalled and not entered

    async def _redraw(
        self, delivery: ComposerDelivery, state: ComposerState, box: Box, after_s: float
    ) -> None:
        """Redraw a screen that was unknown for `after_s`: claude may have drawn one thing over another.

        A dialog is never redrawn: it is a known screen, or the agent publishes it.
        """
        if not box.unknown or delivery.box_reader.redraw_key is None or delivery.is_gone():
            return
        if state.garbled_s is None:
            state.garbled_s = _now()
        if _now() >= state.garbled_s + after_s:
            state.garbled_s = _now() + timing.DRAWN_AGAIN_AFTER_S
            await self._box.press(delivery, delivery.box_reader.redraw_key)

    def _holds_only_message(self, delivery: ComposerDelivery, state: ComposerState, box: Box) -> bool:
        """True if the box holds the message and nothing else. Remembers how the box shows the message."""
        # A restored draft may look like the message: the box abbreviates two texts of as many lines in the same way.
        is_restored = state.over_a_draft and box.draft == state.put_aside
        if is_restored or not delivery.box_reader.shows_message(
            box.draft, delivery.text, state.shown or None
        ):
            return False
        state.shown = state.shown or box.draft
        return True

    async def _is_enterable(self, delivery: ComposerDelivery, state: ComposerState) -> bool:
        if delivery.is_gone() or await self._monitor.blocked_reason(delivery.session_id) is not None:
            return False
        box = await self._box.look(delivery)  # last, right before the Enter
        return box is not None and box.closed is None and self._holds_only_message(delivery, state, box)

    async def _remove(self, delivery: ComposerDelivery, state: ComposerState, text: str, shown: str) -> None:
        """Remove a message that the box shows as the draft `shown`. The caller holds the lock.

        The removal ends early when the screen is read half drawn, or when the agent is stopped. The next delivery
        continues it: otherwise the rest would look like a person's draft, and be put aside.
        """
        begun = state.removing == text
        state.removing, state.removing_shown = text, shown
        if await self._box.remove(delivery, text, begun=begun):
            state.removing = ""

    async def _clear(self, delivery: ComposerDelivery, state: ComposerState) -> None:
        async with state.lock:
            box = await self._box.look(delivery)
            # A box that never showed the message holds no copy of it, even if the draft looks like one.
            if (
                box is None
                or box.closed is not None
                or not delivery.box_reader.shows_message(box.draft, delivery.text, state.shown)
                or not self._holds_only_message(delivery, state, box)
            ):
                return
            await self._remove(delivery, state, delivery.text, box.draft)
        await delivery.message_in_draft(box.draft)


def _now() -> float:
    return asyncio.get_running_loop().time()
