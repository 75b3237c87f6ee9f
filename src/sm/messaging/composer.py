"""Types a message into the input box of an agent's terminal: once, and never into a dialog (design section 6).

Enter is pressed on nothing but our own text in an open box, and only while no tool is about to begin: what is typed
into a dialog would answer it. A box that shows our text although the agent has said that it has it shows a copy (claude
leaves one when the Enter falls into the end of a turn), which is removed and never entered.

Times are those of the running event loop.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sm.errors import NoServer, NoTerminal, TerminalBusy, TerminalError
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

TOOL_WAITS_S = 0.4
"""How long the beginning of a tool may be held up by what is being typed."""
TOOL_SETTLES_S = 0.5
"""How long after a tool was let begin its dialog may open; and how long an agent may take to begin its next turn with
what is in its queue: an Enter in between would overtake that, and leave a copy in the box."""
QUIET_S = 3.0
"""How long a person's draft must have stood unchanged before it is put aside."""
SHOWS_WITHIN_S = 3.0
"""How long a box may need to show what was pasted into it, while nothing else can be typed there."""
SHOWS_AT_ALL_S = 60.0
"""How long until it counts as lost: an agent that stands still shows it when it goes on. It is never pasted again."""
AGAIN_AFTER_S = 1.5
"""When an Enter without evidence counts as lost. A hook that is late by more would have the message sent twice."""
AGAIN_OVER_A_DRAFT_S = 10.0
"""The same where a draft was put aside. It comes back with the first Enter: were that only late, the second would send
what a person has not."""
ENTERS_MAX = 5
ARRIVES_WITHIN_S = 15.0
"""How long evidence may take for a text that has left the box."""
MIXED_S = 15.0
"""How long somebody's words may stand beside ours."""
LEFT_S = 3.0
"""How long evidence may take for what the last daemon typed."""
LEFT_COMES_WITHIN_S = 600.0
"""How long what was given up before the box showed anything may take to show."""
RETURNS_WITHIN_S = 2.0
"""How long after an interrupt took effect the agent may put our text back into its box."""
INTERRUPTED_WITHIN_S = 10.0
"""How long an agent that stands still may need until the interrupt takes effect and its screen is readable."""
GARBLED_S = 2.0
"""How long a screen may show nothing that is known before it is drawn anew."""
_FIRST_LOOK_S = 0.005
_LOOK_S = 0.02
_SLOW_LOOK_S = 0.25
_PUT_ASIDE_WITHIN_S = 1.0
_DRAFT_LOOK_S = 0.5
_TOOLS_WAITED_FOR = 3
_DRAWN_AGAIN_AFTER_S = 60.0


class ComposerDriver(AgentListener):
    """Delivers to input boxes, one message of a session at a time."""

    def __init__(self, terminal: ComposerTerminal, monitor: DialogMonitor) -> None:
        self._box = InputBox(terminal)
        self._monitor = monitor
        self._states: dict[str, ComposerState] = {}

    def forget(self, session_id: str) -> None:
        """Its process is gone."""
        state = self._states.get(session_id)
        if state is not None and not state.lock.locked():
            del self._states[session_id]

    async def tool_started(self, session_id: str) -> None:
        """A tool is about to run, and may open a dialog after the return of this call.

        Waits a moment for an Enter under way. Without that Enter, no Enter is pressed until the dialog is gone.
        """
        await self._let(session_id, "a tool begins")

    async def turn_ending(self, session_id: str) -> None:
        """The turn ends and the next one begins with the agent's own queue. Waits as `tool_started` does."""
        await self._let(session_id, "a turn ends")

    async def _let(self, session_id: str, what: str) -> None:
        state = self._state(session_id)
        try:
            async with asyncio.timeout(TOOL_WAITS_S), state.lock:
                pass
        except TimeoutError:
            state.overtaken = True
        state.rests, state.rests_s = what, _now() + TOOL_SETTLES_S

    @asynccontextmanager
    async def interrupting(self, session_id: str) -> AsyncIterator[None]:
        """While somebody else interrupts the agent: not between a paste and its Enter, where that can be waited for.

        What it was asked last may come back into its box, so nothing is pasted before that can be seen.
        """
        state, locked = self._state(session_id), False
        try:
            async with asyncio.timeout(TOOL_WAITS_S):
                locked = await state.lock.acquire()
        except TimeoutError:
            state.overtaken = True
        try:
            yield
        finally:
            state.rests, state.rests_s = "it was interrupted", _now() + RETURNS_WITHIN_S
            if locked:
                state.lock.release()

    async def deliver(self, delivery: ComposerDelivery) -> DeliveryOutcome:
        """Type it, and follow it until it is known what became of it."""
        state = self._state(delivery.session_id)
        entered = 0
        try:
            async with state.lock:
                state.overtaken, state.over_a_draft, state.shown, state.beside = False, False, "", False
                outcome = await self._held(delivery, state) or await self._put_aside(delivery, state)
                if outcome is not None:
                    return outcome
                if not await delivery.begins():
                    return ARRIVED
                # To write that down may have taken its time.
                if (outcome := await self._held(delivery, state)) is not None:
                    return outcome
                await self._box.paste(delivery)
                entered = await self._enter_when_it_shows(delivery, state)
            not_confirmed = "it has left the input box, and nothing tells that it arrived"
            outcome = await self._follow(delivery, state, entered, ARRIVES_WITHIN_S, not_confirmed)
            state.left = delivery.letter if outcome.end is DeliveryEnd.UNCONFIRMED else ""
            # Beside somebody's words it cannot be told from what they have pasted: it stays with them.
            state.left_shown = state.shown or ("" if state.beside else None)
            state.left_until_s = _now() + LEFT_COMES_WITHIN_S
            return outcome
        except TerminalBusy as error:
            return held(error.message)
        except (NoTerminal, NoServer) as error:
            return DeliveryOutcome(DeliveryEnd.UNCONFIRMED if entered else DeliveryEnd.FAILED, error.message)

    async def resume(self, delivery: ComposerDelivery) -> DeliveryOutcome:
        """Follow what a daemon was typing when it ended: it is entered if it stands in the box, and never pasted."""
        state = self._state(delivery.session_id)
        left = "the daemon ended while it was typed"
        try:
            proof = await delivery.proof(LEFT_S)
            if proof is not Proof.NONE:
                await self._arrived(delivery, state, proof)
                return ARRIVED
            return await self._follow(delivery, state, 1, 0.0, left)
        except TerminalError as error:
            return unconfirmed(f"{left}; {error.message}")

    def _state(self, session_id: str) -> ComposerState:
        return self._states.setdefault(session_id, ComposerState())

    # Before the paste

    async def _held(self, delivery: ComposerDelivery, state: ComposerState) -> DeliveryOutcome | None:
        """Why nothing may be typed now, but for a draft that may be put aside."""
        rest_s = state.rests_s - _now()
        if rest_s > 0:
            return held(delivery.busy(state.rests), rest_s)
        if (why := await self._monitor.blocked(delivery.session_id)) is not None:
            return held(delivery.busy(why))
        box = await self._box.look(delivery)
        if box is None or delivery.gone():
            return held("its terminal does not answer")
        if box.closed is not None:
            await self._draw_anew(delivery, state, box, GARBLED_S)
            return held(delivery.busy(box.closed))
        state.garbled_s = None
        state.over_a_draft |= box.stashed  # by us before something came between, or by a person
        if state.left_shown is None and _now() >= state.left_until_s:
            state.left_shown = ""
        if state.left and delivery.composer.is_ours(box.draft, state.left, state.left_shown):
            state.left_shown = state.left_shown or box.draft
            await self._remove(delivery, state, state.left, box.draft)
            return held("it is being cleared of what was given up there", _DRAFT_LOOK_S)
        if not box.draft:
            state.draft = state.removing = ""
            return None
        if state.removing and (
            box.draft == state.removing_shown or is_beginning(box.draft, state.removing)
        ):  # the removal ended early: the screen was read half drawn, or the agent read the keys late
            await self._remove(delivery, state, state.removing, state.removing_shown)
            return held("it is being cleared of a message that was put back there", _DRAFT_LOOK_S)
        if box.draft != state.draft:
            state.draft, state.draft_since_s = box.draft, _now()
            if (letter := await delivery.returned(box.draft)) is not None:
                await self._remove(delivery, state, letter, box.draft)
                return held("it is being cleared of a message that was put back there", _DRAFT_LOOK_S)
        if box.draft != state.put_aside and _now() - state.draft_since_s < QUIET_S:
            return held("somebody is typing in its input box", _DRAFT_LOOK_S)
        # A second draft that is put aside would replace the first.
        if delivery.composer.stash_key is None or box.stashed:
            return held("a draft stands in its input box, and cannot be put aside")
        return None

    async def _put_aside(self, delivery: ComposerDelivery, state: ComposerState) -> DeliveryOutcome | None:
        """Empty the box of a person's draft, which the agent puts back when our text is sent."""
        if not state.draft:
            return None
        assert delivery.composer.stash_key is not None
        await self._box.press(delivery, delivery.composer.stash_key)
        until_s = _now() + _PUT_ASIDE_WITHIN_S
        while _now() < until_s:
            await asyncio.sleep(_LOOK_S)
            box = await self._box.look(delivery)
            if box is not None and box.closed is None and not box.draft:
                state.draft, state.put_aside, state.over_a_draft = "", state.draft, True
                return None
        return held("somebody is typing in its input box", _DRAFT_LOOK_S)

    async def _enter_when_it_shows(self, delivery: ComposerDelivery, state: ComposerState) -> int:
        """How often Enter was pressed, with the lock held: once, or not at all when something came between."""
        until_s, pause_s = _now() + SHOWS_WITHIN_S, _FIRST_LOOK_S
        while _now() < until_s and not state.overtaken:
            if await delivery.proof(pause_s) is not Proof.NONE:
                return 0
            pause_s = _LOOK_S
            box = await self._box.look(delivery)
            if box is not None and box.closed is not None:
                return 0
            if box is not None and self._is_ours(delivery, state, box):
                return 1 if await self._enter(delivery, state) else 0
        return 0

    # Enter, and what comes of it

    async def _enter(self, delivery: ComposerDelivery, state: ComposerState) -> bool:
        """Press Enter if the box holds our text and nothing else, with the lock held; whether it may have been."""
        if _now() < state.rests_s or await delivery.proof(0) is not Proof.NONE:
            return False
        return (
            await self._stands(delivery, state)
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
        """Until there is a proof, or none can come any more. `entered`: how often Enter was pressed."""
        since_s = _now()
        """Since when its text is not in the box although the box is open."""
        again_after_s = AGAIN_OVER_A_DRAFT_S if state.over_a_draft else AGAIN_AFTER_S
        enter_s = since_s + again_after_s if entered and arrives_within_s else since_s
        mixed_s: float | None = None
        was_there = bool(state.shown)
        pause_s = _LOOK_S
        while True:
            proof = await delivery.proof(pause_s)
            if proof is not Proof.NONE:
                await self._arrived(delivery, state, proof)
                return ARRIVED
            if delivery.gone():
                return DeliveryOutcome(
                    DeliveryEnd.UNCONFIRMED if entered else DeliveryEnd.FAILED, "its process has ended"
                )
            box, now_s = await self._box.look(delivery), _now()
            why = await self._monitor.blocked(delivery.session_id)
            pause_s = _SLOW_LOOK_S
            if box is None:
                since_s = now_s
                continue
            if why is not None or box.closed is not None:
                # The box is below a dialog, with all that stands in it.
                await delivery.explain(delivery.busy(why or box.closed or ""))
                if why is None:
                    await self._draw_anew(delivery, state, box, GARBLED_S)
                since_s = now_s
                continue
            ours = self._is_ours(delivery, state, box)
            state.beside |= bool(box.draft) and not ours
            if ours:
                since_s, mixed_s, pause_s, was_there = now_s, None, _LOOK_S, True
                if now_s < enter_s:
                    continue
                if entered >= ENTERS_MAX:
                    await self._clear(delivery, state)
                    return unconfirmed(f"it stood in its input box after {entered} Enters, and was taken out")
                async with state.lock:
                    state.overtaken = False
                    if await self._enter(delivery, state):
                        entered, enter_s = entered + 1, _now() + again_after_s
                continue
            if delivery.composer.holds_ours(box.draft, delivery.letter):
                since_s, mixed_s, was_there = now_s, mixed_s or now_s, True
                await delivery.explain("somebody is typing in its input box")
                if now_s - mixed_s >= MIXED_S:
                    return unconfirmed(
                        "it stands in its input box, together with what somebody has typed there"
                    )
                continue
            pause_s = _LOOK_S
            if entered and now_s - since_s >= arrives_within_s:
                return unconfirmed(not_confirmed)
            if not entered and now_s - since_s >= (
                SHOWS_WITHIN_S if box.draft or was_there else SHOWS_AT_ALL_S
            ):
                shows = "does not show any more" if was_there else "shows nothing of"
                shows = "shows something else than" if box.draft and not was_there else shows
                return unconfirmed(f"its input box {shows} what was pasted; Enter was not pressed")

    # When it has arrived

    async def _arrived(self, delivery: ComposerDelivery, state: ComposerState, proof: Proof) -> None:
        """Leave the box without our text. Whatever goes wrong now changes nothing of what has arrived."""
        try:
            if proof is Proof.QUEUED and delivery.interrupt is not None:
                await self._interrupt(delivery, state, delivery.interrupt)
            await asyncio.sleep(delivery.composer.settle_s)
            await self._clear(delivery, state)
        except TerminalError as error:
            log.warning(
                "could not see to the box: %s", error.message, extra={"sm_session": delivery.session_id}
            )

    async def _interrupt(self, delivery: ComposerDelivery, state: ComposerState, key: str) -> None:
        """End the turn that keeps an urgent message waiting.

        Only now, when the message is in the agent's own queue: then claude goes on with that, and what it was working
        on stays in the conversation. An Escape without anything in the queue would take a prompt that was not
        answered yet out of the conversation and put it back into the box.

        When the turn has just ended by itself, Escape hits the one that has begun with our message, and it is that
        which comes back: the model does not have it, and it is entered again.
        """
        for _ in range(_TOOLS_WAITED_FOR):
            await asyncio.sleep(max(0.0, state.rests_s - _now()))
        async with state.lock:
            state.overtaken = False
            box = await self._box.look(delivery)
            if box is None or box.closed is not None or delivery.gone():
                return  # a dialog is open, to which Escape would be an answer: the message waits for another one
            if (
                await self._monitor.blocked(delivery.session_id) is not None
                or await delivery.proof(0) is not Proof.QUEUED
            ):
                return
            await self._box.press(delivery, key)
        until_s, enter_s, entered = _now() + RETURNS_WITHIN_S, 0.0, 0
        effect_until_s = _now() + INTERRUPTED_WITHIN_S
        while _now() < until_s and entered < ENTERS_MAX:
            await asyncio.sleep(_LOOK_S)
            queued = await delivery.proof(0) is Proof.QUEUED
            box = await self._box.look(delivery)
            if (queued or box is None or box.unknown) and _now() < effect_until_s:
                until_s = max(until_s, _now() + RETURNS_WITHIN_S)
            if box is None or delivery.gone() or await self._monitor.blocked(delivery.session_id) is not None:
                continue
            await self._draw_anew(delivery, state, box, 0.0)
            if box.closed is not None or not self._is_ours(delivery, state, box) or _now() < enter_s:
                continue
            async with state.lock:
                if await self._stands(delivery, state) and await self._box.press(delivery, "Enter"):
                    entered, enter_s = entered + 1, _now() + AGAIN_AFTER_S
                    until_s = enter_s + RETURNS_WITHIN_S

    async def _draw_anew(
        self, delivery: ComposerDelivery, state: ComposerState, box: Box, after_s: float
    ) -> None:
        """Have a screen drawn anew that has shown nothing that is known for so long: claude may have drawn one thing
        over another, and leaves it so. A dialog is never drawn anew: it is known, or the agent publishes it.
        """
        if not box.unknown or delivery.composer.redraw_key is None or delivery.gone():
            return
        if state.garbled_s is None:
            state.garbled_s = _now()
        if _now() >= state.garbled_s + after_s:
            state.garbled_s = _now() + _DRAWN_AGAIN_AFTER_S
            await self._box.press(delivery, delivery.composer.redraw_key)

    def _is_ours(self, delivery: ComposerDelivery, state: ComposerState, box: Box) -> bool:
        """Whether the box holds our text and nothing else. A draft that was put aside for it, and is back, may look the
        same: two texts of as many lines.
        """
        is_draft = state.over_a_draft and box.draft == state.put_aside
        if is_draft or not delivery.composer.is_ours(box.draft, delivery.letter, state.shown or None):
            return False
        state.shown = state.shown or box.draft
        return True

    async def _stands(self, delivery: ComposerDelivery, state: ComposerState) -> bool:
        """Whether the box is open, and holds our text and nothing else."""
        if delivery.gone() or await self._monitor.blocked(delivery.session_id) is not None:
            return False
        box = await self._box.look(delivery)  # last of all
        return box is not None and box.closed is None and self._is_ours(delivery, state, box)

    async def _remove(
        self, delivery: ComposerDelivery, state: ComposerState, letter: str, shown: str
    ) -> None:
        """Remove a letter that the box shows as this draft, with the lock held.

        The removal ends early when the screen is read half drawn, or when the agent stands still. The next delivery
        goes on with it: otherwise the rest would look like a person's draft, and be put aside.
        """
        begun = state.removing == letter
        state.removing, state.removing_shown = letter, shown
        if await self._box.remove(delivery, letter, begun=begun):
            state.removing = ""

    async def _clear(self, delivery: ComposerDelivery, state: ComposerState) -> None:
        """Remove our text where it is all that stands in the box."""
        async with state.lock:
            box = await self._box.look(delivery)
            if box is None or box.closed is not None:
                return
            # What was never seen in the box is no copy of ours, whatever it looks like.
            if not (
                delivery.composer.is_ours(box.draft, delivery.letter, state.shown)
                and self._is_ours(delivery, state, box)
            ):
                return
            await self._remove(delivery, state, delivery.letter, box.draft)
        await delivery.returned(box.draft)


def _now() -> float:
    return asyncio.get_running_loop().time()
