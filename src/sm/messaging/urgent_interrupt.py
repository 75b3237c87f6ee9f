"""Interrupts the turn that keeps an urgent message waiting in the agent's own queue."""

import asyncio

from sm.messaging import composer_timing as timing
from sm.messaging.composer_state import ComposerDelivery, ComposerState, DialogMonitor, Proof
from sm.messaging.input_box import InputBox


class UrgentInterrupt:
    """Interrupts an agent, and enters the message again if the agent puts the message back into its box."""

    def __init__(self, box: InputBox, monitor: DialogMonitor) -> None:
        self._box = box
        self._monitor = monitor

    async def interrupt(self, delivery: ComposerDelivery, state: ComposerState, key: str) -> bool:
        """End the turn that keeps an urgent message waiting.

        The message must be in the agent's own queue: then claude continues with the queue, and the interrupted work
        stays in the conversation. An Escape with an empty queue would take a prompt without an answer out of the
        conversation and put it back into the box.

        If the turn has just ended, Escape interrupts the turn of the message itself. Then the message comes back into
        the box without having reached the model, and is entered again. Returns True if the box shows the message only
        because a person recalled it.
        """
        for _ in range(timing.TOOLS_WAITED_FOR):
            await asyncio.sleep(max(0.0, state.rests_s - timing.now()))
        async with state.lock:
            state.overtaken = False
            box = await self._box.look(delivery)
            if box is None or box.closed is not None or delivery.is_gone():
                return False  # Escape would answer an open dialog: the message stays in the queue
            if await self._monitor.blocked_reason(delivery.session_id) is not None:
                return False
            if not await delivery.is_in_queue():
                return False
            was_empty = not box.draft
            await self._box.press(delivery, key)
        until_s, enter_s, entered = timing.now() + timing.RETURNS_WITHIN_S, 0.0, 0
        shown_s: float | None = None
        is_recalled = False
        effect_until_s = timing.now() + timing.INTERRUPTED_WITHIN_S
        while timing.now() < until_s and entered < timing.ENTERS_MAX:
            await asyncio.sleep(timing.LOOK_S)
            proof = await delivery.proof(0)
            if proof is Proof.OVER:
                return was_empty and not entered
            queued = proof is Proof.QUEUED
            box = await self._box.look(delivery)
            if (queued or box is None or box.unknown) and timing.now() < effect_until_s:
                until_s = max(until_s, timing.now() + timing.RETURNS_WITHIN_S)
            if (
                box is None
                or delivery.is_gone()
                or await self._monitor.blocked_reason(delivery.session_id) is not None
            ):
                continue
            await self._box.redraw(delivery, state, box, 0.0)
            if not was_empty or box.closed is not None or not state.holds_only_message(delivery, box):
                shown_s, is_recalled = None, False
                continue
            shown_s = timing.now() if shown_s is None else shown_s
            until_s = max(until_s, shown_s + timing.QUIET_S)
            if timing.now() < max(enter_s, shown_s + timing.PUT_BACK_SETTLES_S):
                continue
            is_recalled = await self._monitor.is_working(delivery.session_id)
            if is_recalled:  # or the agent has not published yet that the interrupt ended its turn
                continue
            if await delivery.proof(0) is Proof.OVER:  # the turn has ended, before the agent published it
                continue
            async with state.lock:
                if await self._box.is_enterable(delivery, state) and await self._box.press(delivery, "Enter"):
                    entered, enter_s = entered + 1, timing.now() + timing.AGAIN_AFTER_S
                    until_s = enter_s + timing.RETURNS_WITHIN_S
        return is_recalled and not entered
