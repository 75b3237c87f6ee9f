"""Decides whether an input box can take a message now, and puts a person's draft aside."""

import asyncio

from sm.messaging import composer_timing as timing
from sm.messaging.composer_state import (
    ComposerDelivery,
    ComposerState,
    DeliveryOutcome,
    DialogMonitor,
    held,
)
from sm.messaging.input_box import InputBox, is_beginning


class ComposerGate:
    """Holds messages while an input box is closed, or holds other text. The caller holds the lock of the state."""

    def __init__(self, box: InputBox, monitor: DialogMonitor) -> None:
        self._box = box
        self._monitor = monitor

    async def hold_reason(self, delivery: ComposerDelivery, state: ComposerState) -> DeliveryOutcome | None:
        """The reason to type nothing now; None: the box is empty, or holds a draft that may be put aside."""
        rest_s = state.rests_s - timing.now()
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
            await self._box.redraw(delivery, state, box, timing.GARBLED_S)
            return held(delivery.busy_reason(box.closed))
        state.garbled_s = None
        state.over_a_draft |= box.stashed  # by an earlier delivery or by a person
        if state.left_shown is None and timing.now() >= state.left_until_s:
            state.left_shown = ""
        if state.left and delivery.box_reader.shows_message(box.draft, state.left, state.left_shown):
            state.left_shown = state.left_shown or box.draft
            await self._box.remove(delivery, state, state.left, box.draft)
            return held("sm is clearing an undelivered message from the input box", timing.DRAFT_LOOK_S)
        if not box.draft:
            state.draft = state.removing = ""
            if not await self._box.is_drawn(delivery):
                return held("somebody is typing in the input box", timing.DRAFT_LOOK_S)
            return None
        if state.removing and (
            box.draft == state.removing_shown or is_beginning(box.draft, state.removing)
        ):  # the removal ended early
            await self._box.remove(delivery, state, state.removing, state.removing_shown)
            return held("sm is clearing a message that came back into the input box", timing.DRAFT_LOOK_S)
        if box.draft != state.draft:
            state.draft, state.draft_since_s = box.draft, timing.now()
            if (text := await delivery.message_in_draft(box.draft)) is not None:
                await self._box.remove(delivery, state, text, box.draft)
                return held("sm is clearing a message that came back into the input box", timing.DRAFT_LOOK_S)
        if box.draft != state.put_aside and timing.now() - state.draft_since_s < timing.QUIET_S:
            return held("somebody is typing in the input box", timing.DRAFT_LOOK_S)
        # A second draft that is put aside would replace the first.
        if delivery.box_reader.stash_key is None or box.stashed:
            return held("the input box holds a draft that cannot be set aside")
        return None

    async def put_aside(self, delivery: ComposerDelivery, state: ComposerState) -> DeliveryOutcome | None:
        """Put a person's draft aside. The agent restores it when the message is sent."""
        if not state.draft:
            return None
        assert delivery.box_reader.stash_key is not None
        await self._box.press(delivery, delivery.box_reader.stash_key)
        until_s = timing.now() + timing.PUT_ASIDE_WITHIN_S
        while timing.now() < until_s:
            await asyncio.sleep(timing.LOOK_S)
            box = await self._box.look(delivery)
            if box is not None and box.closed is None and not box.draft:
                state.draft, state.put_aside, state.over_a_draft = "", state.draft, True
                return None
        return held("somebody is typing in the input box", timing.DRAFT_LOOK_S)
