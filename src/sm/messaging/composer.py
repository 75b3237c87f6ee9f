"""Types a message into the input box that an agent's terminal shows: once, and never into anything else (design 6).

Enter is pressed on nothing but our own text in an open box, and only while no tool is about to begin: what is typed
into a dialog would answer it. A box that shows our text although the agent has said that it has it shows a copy (claude
leaves one when the Enter falls into the end of a turn), which is removed and never entered.

Times are those of the running event loop.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle

from sm.errors import NoServer, NoTerminal, TerminalBusy, TerminalError, TerminalUnreachable
from sm.messaging.outcome import Delivery, DialogMonitor, End, Outcome, Proof, Terminal
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
"""How long after an interrupt the agent may put our text back into its box."""
GARBLED_S = 2.0
"""How long a screen may show nothing that is known before it is drawn anew."""
_FIRST_LOOK_S = 0.005
_LOOK_S = 0.02
_SLOW_LOOK_S = 0.25
_PUT_ASIDE_WITHIN_S = 1.0
_KEYS_MAX = 300
_KEY_SHOWS_S = 0.3
_KEYS_UNSEEN_MAX = 4
_DRAFT_LOOK_S = 0.5
_TOOLS_WAITED_FOR = 3
_DRAWN_AGAIN_AFTER_S = 60.0


@dataclass
class _Hand:
    """What is remembered of the typing in one session."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held from the last look before the paste until Enter is pressed."""
    overtaken: bool = False
    """A tool has begun without waiting any longer."""
    rests_s: float = float("-inf")
    """Until when nothing is pasted or entered, because of what has just begun or ended,"""
    rests: str = ""
    """in words."""
    draft: str = ""
    draft_since_s: float = 0.0
    garbled_s: float | None = None
    """Since when its screen shows nothing that is known; later than now: it was drawn anew."""
    shown: str = ""
    """The draft as which the message that is under way was seen in the box."""
    beside: bool = False
    """The box has shown something else since it was pasted."""
    left: str = ""
    """What was given up while it stood in the box, or could still come to stand there,"""
    left_shown: str | None = ""
    """as which draft (`Composer.is_ours`); None: it has not shown yet, and is not waited for after"""
    left_until_s: float = 0.0
    """this."""
    over_a_draft: bool = False
    """A draft is put aside for the message that is under way."""
    put_aside: str = ""
    """The draft that we put aside last: it comes back unchanged, and need not be waited for again."""


class Composing(AgentListener):
    """Delivers to input boxes, one message of a session at a time.

    `monitor` says whether an agent waits for an answer at this moment.
    """

    def __init__(self, terminal: Terminal, monitor: DialogMonitor) -> None:
        self._terminal = terminal
        self._monitor = monitor
        self._hands: dict[str, _Hand] = {}

    def forget(self, session_id: str) -> None:
        """Its process is gone."""
        hand = self._hands.get(session_id)
        if hand is not None and not hand.lock.locked():
            del self._hands[session_id]

    async def tool_started(self, session_id: str) -> None:
        """A tool is about to run, and may open a dialog after the return of this call.

        Waits a moment for an Enter under way. Without that Enter, no Enter is pressed until the dialog is gone.
        """
        await self._let(session_id, "a tool begins")

    async def turn_ending(self, session_id: str) -> None:
        """The turn ends and the next one begins with the agent's own queue. Waits as `tool_started` does."""
        await self._let(session_id, "a turn ends")

    async def _let(self, session_id: str, what: str) -> None:
        hand = self._hand(session_id)
        try:
            async with asyncio.timeout(TOOL_WAITS_S), hand.lock:
                pass
        except TimeoutError:
            hand.overtaken = True
        hand.rests, hand.rests_s = what, _now() + TOOL_SETTLES_S

    @asynccontextmanager
    async def interrupting(self, session_id: str) -> AsyncIterator[None]:
        """While somebody else interrupts the agent: not between a paste and its Enter, where that can be waited for.

        What it was asked last may come back into its box, so nothing is pasted before that can be seen.
        """
        hand, locked = self._hand(session_id), False
        try:
            async with asyncio.timeout(TOOL_WAITS_S):
                locked = await hand.lock.acquire()
        except TimeoutError:
            hand.overtaken = True
        try:
            yield
        finally:
            hand.rests, hand.rests_s = "it was interrupted", _now() + RETURNS_WITHIN_S
            if locked:
                hand.lock.release()

    async def deliver(self, it: Delivery) -> Outcome:
        """Type it, and follow it until it is known what became of it."""
        hand = self._hand(it.session_id)
        entered = 0
        try:
            async with hand.lock:
                hand.overtaken, hand.over_a_draft, hand.shown, hand.beside = False, False, "", False
                held = await self._held(it, hand) or await self._put_aside(it, hand)
                if held is not None:
                    return held
                if not await it.begins():
                    return Outcome(End.ARRIVED)
                # To write that down may have taken its time.
                held = await self._held(it, hand)
                if held is not None:
                    return held
                await self._paste(it)
                entered = await self._enter_when_it_shows(it, hand)
            not_confirmed = "it has left the input box, and nothing tells that it arrived"
            outcome = await self._follow(it, hand, entered, ARRIVES_WITHIN_S, not_confirmed)
            hand.left = it.letter if outcome.end is End.UNCONFIRMED else ""
            # Beside somebody's words it cannot be told from what they have pasted: it stays with them.
            hand.left_shown = hand.shown or ("" if hand.beside else None)
            hand.left_until_s = _now() + LEFT_COMES_WITHIN_S
            return outcome
        except TerminalBusy as error:
            return Outcome(End.HELD, error.message)
        except (NoTerminal, NoServer) as error:
            return Outcome(End.UNCONFIRMED if entered else End.FAILED, error.message)

    async def resume(self, it: Delivery) -> Outcome:
        """Follow what a daemon was typing when it ended: it is entered if it stands in the box, and never pasted."""
        hand = self._hand(it.session_id)
        left = "the daemon ended while it was typed"
        try:
            proof = await it.proof(LEFT_S)
            if proof is not Proof.NONE:
                await self._arrived(it, hand, proof)
                return Outcome(End.ARRIVED)
            return await self._follow(it, hand, 1, 0.0, left)
        except TerminalError as error:
            return Outcome(End.UNCONFIRMED, f"{left}; {error.message}")

    def _hand(self, session_id: str) -> _Hand:
        return self._hands.setdefault(session_id, _Hand())

    # Before the paste

    async def _held(self, it: Delivery, hand: _Hand) -> Outcome | None:
        """Why nothing may be typed now, but for a draft that may be put aside."""
        rest_s = hand.rests_s - _now()
        if rest_s > 0:
            return Outcome(End.HELD, it.busy(hand.rests), rest_s)
        if (why := await self._monitor.blocked(it.session_id)) is not None:
            return Outcome(End.HELD, it.busy(why))
        box = await self._look(it)
        if box is None or it.gone():
            return Outcome(End.HELD, "its terminal does not answer")
        if box.closed is not None:
            await self._draw_anew(it, hand, box, GARBLED_S)
            return Outcome(End.HELD, it.busy(box.closed))
        hand.garbled_s = None
        hand.over_a_draft |= box.stashed  # by us before something came between, or by a person
        if hand.left_shown is None and _now() >= hand.left_until_s:
            hand.left_shown = ""
        if hand.left and it.composer.is_ours(box.draft, hand.left, hand.left_shown):
            hand.left_shown = hand.left_shown or box.draft
            await self._remove(it, hand.left)
            return Outcome(End.HELD, "it is being cleared of what was given up there", _DRAFT_LOOK_S)
        if not box.draft:
            hand.draft = ""
            return None
        if box.draft != hand.draft:
            hand.draft, hand.draft_since_s = box.draft, _now()
            if (letter := await it.returned(box.draft)) is not None:
                await self._remove(it, letter)
                return Outcome(
                    End.HELD, "it is being cleared of a message that was put back there", _DRAFT_LOOK_S
                )
        if box.draft != hand.put_aside and _now() - hand.draft_since_s < QUIET_S:
            return Outcome(End.HELD, "somebody is typing in its input box", _DRAFT_LOOK_S)
        if (
            it.composer.stash_key is None or box.stashed
        ):  # a second draft that is put aside would replace the first
            return Outcome(End.HELD, "a draft stands in its input box, and cannot be put aside")
        return None

    async def _put_aside(self, it: Delivery, hand: _Hand) -> Outcome | None:
        """Empty the box of a person's draft, which the agent puts back when our text is sent."""
        if not hand.draft:
            return None
        held = Outcome(End.HELD, "somebody is typing in its input box", _DRAFT_LOOK_S)
        assert it.composer.stash_key is not None
        await self._press(it, it.composer.stash_key)
        until_s = _now() + _PUT_ASIDE_WITHIN_S
        while _now() < until_s:
            await asyncio.sleep(_LOOK_S)
            box = await self._look(it)
            if box is not None and box.closed is None and not box.draft:
                hand.draft, hand.put_aside, hand.over_a_draft = "", hand.draft, True
                return None
        return held

    async def _paste(self, it: Delivery) -> None:
        try:
            await self._terminal.paste(it.terminal, it.composer.pasted(it.letter))
        except TerminalUnreachable as error:  # the box will show whether it is there
            log.warning("could not paste: %s", error.message, extra={"sm_session": it.session_id})

    async def _enter_when_it_shows(self, it: Delivery, hand: _Hand) -> int:
        """How often Enter was pressed, with the lock held: once, or not at all when something came between."""
        until_s, pause_s = _now() + SHOWS_WITHIN_S, _FIRST_LOOK_S
        while _now() < until_s and not hand.overtaken:
            if await it.proof(pause_s) is not Proof.NONE:
                return 0
            pause_s = _LOOK_S
            box = await self._look(it)
            if box is not None and box.closed is not None:
                return 0
            if box is not None and self._is_ours(it, hand, box):
                return 1 if await self._enter(it, hand) else 0
        return 0

    # Enter, and what comes of it

    async def _enter(self, it: Delivery, hand: _Hand) -> bool:
        """Press Enter if the box holds our text and nothing else, with the lock held; whether it may have been."""
        if _now() < hand.rests_s or await it.proof(0) is not Proof.NONE:
            return False
        return await self._stands(it, hand) and not hand.overtaken and await self._press(it, "Enter")

    async def _press(self, it: Delivery, key: str) -> bool:
        """Whether it may have been pressed: what the box shows next tells."""
        try:
            await self._terminal.press(it.terminal, key)
        except TerminalBusy:
            return False
        except TerminalUnreachable as error:
            log.warning("could not press %s: %s", key, error.message, extra={"sm_session": it.session_id})
        return True

    async def _follow(
        self, it: Delivery, hand: _Hand, entered: int, arrives_within_s: float, not_confirmed: str
    ) -> Outcome:
        """Until there is a proof, or none can come any more. `entered`: how often Enter was pressed."""
        since_s = _now()
        """Since when its text is not in the box although the box is open."""
        again_after_s = AGAIN_OVER_A_DRAFT_S if hand.over_a_draft else AGAIN_AFTER_S
        enter_s = since_s + again_after_s if entered and arrives_within_s else since_s
        mixed_s: float | None = None
        was_there = bool(hand.shown)
        pause_s = _LOOK_S
        while True:
            proof = await it.proof(pause_s)
            if proof is not Proof.NONE:
                await self._arrived(it, hand, proof)
                return Outcome(End.ARRIVED)
            if it.gone():
                return Outcome(End.UNCONFIRMED if entered else End.FAILED, "its process has ended")
            box, now_s = await self._look(it), _now()
            why = await self._monitor.blocked(it.session_id)
            pause_s = _SLOW_LOOK_S
            if box is None:
                since_s = now_s
                continue
            if why is not None or box.closed is not None:
                # The box is below a dialog, with all that stands in it.
                await it.explain(it.busy(why or box.closed or ""))
                if why is None:
                    await self._draw_anew(it, hand, box, GARBLED_S)
                since_s = now_s
                continue
            ours = self._is_ours(it, hand, box)
            hand.beside |= bool(box.draft) and not ours
            if ours:
                since_s, mixed_s, pause_s, was_there = now_s, None, _LOOK_S, True
                if now_s < enter_s:
                    continue
                if entered >= ENTERS_MAX:
                    await self._clear(it, hand)
                    return Outcome(
                        End.UNCONFIRMED,
                        f"it stood in its input box after {entered} Enters, and was taken out",
                    )
                async with hand.lock:
                    hand.overtaken = False
                    if await self._enter(it, hand):
                        entered, enter_s = entered + 1, _now() + again_after_s
                continue
            if it.composer.holds_ours(box.draft, it.letter):
                since_s, mixed_s, was_there = now_s, mixed_s or now_s, True
                await it.explain("somebody is typing in its input box")
                if now_s - mixed_s >= MIXED_S:
                    return Outcome(
                        End.UNCONFIRMED,
                        "it stands in its input box, together with what somebody has typed there",
                    )
                continue
            pause_s = _LOOK_S
            if entered and now_s - since_s >= arrives_within_s:
                return Outcome(End.UNCONFIRMED, not_confirmed)
            if not entered and now_s - since_s >= (
                SHOWS_WITHIN_S if box.draft or was_there else SHOWS_AT_ALL_S
            ):
                shows = "does not show any more" if was_there else "shows nothing of"
                shows = "shows something else than" if box.draft and not was_there else shows
                return Outcome(
                    End.UNCONFIRMED, f"its input box {shows} what was pasted; Enter was not pressed"
                )

    # When it has arrived

    async def _arrived(self, it: Delivery, hand: _Hand, proof: Proof) -> None:
        """Leave the box without our text. Whatever goes wrong now changes nothing of what has arrived."""
        try:
            if proof is Proof.QUEUED and it.interrupt is not None:
                await self._interrupt(it, hand, it.interrupt)
            await asyncio.sleep(it.composer.settle_s)
            await self._clear(it, hand)
        except TerminalError as error:
            log.warning("could not see to the box: %s", error.message, extra={"sm_session": it.session_id})

    async def _interrupt(self, it: Delivery, hand: _Hand, key: str) -> None:
        """End the turn that keeps an urgent message waiting.

        Only now, when the message is in the agent's own queue: then claude goes on with that, and what it was working
        on stays in the conversation. An Escape without anything in the queue would take a prompt that was not
        answered yet out of the conversation and put it back into the box.

        When the turn has just ended by itself, Escape hits the one that has begun with our message, and it is that
        which comes back: the model does not have it, and it is entered again.
        """
        for _ in range(_TOOLS_WAITED_FOR):
            await asyncio.sleep(max(0.0, hand.rests_s - _now()))
        async with hand.lock:
            hand.overtaken = False
            box = await self._look(it)
            if box is None or box.closed is not None or it.gone():
                return  # a dialog is open, to which Escape would be an answer: the message waits for another one
            if (
                await self._monitor.blocked(it.session_id) is not None
                or await it.proof(0) is not Proof.QUEUED
            ):
                return
            await self._press(it, key)
        until_s, enter_s, entered = _now() + RETURNS_WITHIN_S, 0.0, 0
        while _now() < until_s and entered < ENTERS_MAX:
            await asyncio.sleep(_LOOK_S)
            box = await self._look(it)
            if box is None or it.gone() or await self._monitor.blocked(it.session_id) is not None:
                continue
            await self._draw_anew(it, hand, box, 0.0)
            if box.closed is not None or not self._is_ours(it, hand, box) or _now() < enter_s:
                continue
            async with hand.lock:
                if await self._stands(it, hand) and await self._press(it, "Enter"):
                    entered, enter_s = entered + 1, _now() + AGAIN_AFTER_S
                    until_s = enter_s + RETURNS_WITHIN_S

    async def _draw_anew(self, it: Delivery, hand: _Hand, box: Box, after_s: float) -> None:
        """Have a screen drawn anew that has shown nothing that is known for so long: claude may have drawn one thing
        over another, and leaves it so. A dialog is never drawn anew: it is known, or the agent publishes it.
        """
        if not box.unknown or it.composer.redraw_key is None or it.gone():
            return
        if hand.garbled_s is None:
            hand.garbled_s = _now()
        if _now() >= hand.garbled_s + after_s:
            hand.garbled_s = _now() + _DRAWN_AGAIN_AFTER_S
            await self._press(it, it.composer.redraw_key)

    def _is_ours(self, it: Delivery, hand: _Hand, box: Box) -> bool:
        """Whether the box holds our text and nothing else. A draft that was put aside for it, and is back, may look the
        same: two texts of as many lines.
        """
        is_draft = hand.over_a_draft and box.draft == hand.put_aside
        if is_draft or not it.composer.is_ours(box.draft, it.letter, hand.shown or None):
            return False
        hand.shown = hand.shown or box.draft
        return True

    async def _stands(self, it: Delivery, hand: _Hand) -> bool:
        """Whether the box is open, and holds our text and nothing else."""
        if it.gone() or await self._monitor.blocked(it.session_id) is not None:
            return False
        box = await self._look(it)  # last of all
        return box is not None and box.closed is None and self._is_ours(it, hand, box)

    async def _clear(self, it: Delivery, hand: _Hand) -> None:
        """Remove our text where it is all that stands in the box."""
        async with hand.lock:
            box = await self._look(it)
            if box is None or box.closed is not None:
                return
            # What was never seen in the box is no copy of ours, whatever it looks like.
            if not (it.composer.is_ours(box.draft, it.letter, hand.shown) and self._is_ours(it, hand, box)):
                return
            await self._remove(it, it.letter)
        await it.returned(box.draft)

    async def _remove(self, it: Delivery, letter: str) -> None:
        """Remove this text of ours where it is all that stands in the box, with the lock held.

        Key by key, each when the one before has shown: of several that an agent reads at once it makes text.
        """
        keys = cycle(it.composer.clearing)
        key, pressed = next(keys), 0
        before: str | None = None
        pressed_s, unseen = 0.0, 0
        while pressed < _KEYS_MAX:
            box = await self._look(it)
            if box is None or box.closed is not None or it.gone():
                return
            # Half cleared, it is a beginning of ours.
            ours = it.composer.is_ours(box.draft, letter, None) or (
                before is not None
                and (letter.startswith(box.draft) or it.composer.holds_ours(box.draft, letter))
            )
            if not box.draft or not ours:
                return
            if box.draft != before:
                unseen = 0
            elif _now() < pressed_s + _KEY_SHOWS_S:
                await asyncio.sleep(_LOOK_S)
                continue
            elif (unseen := unseen + 1) >= _KEYS_UNSEEN_MAX:
                return
            else:
                key = next(keys)  # the cursor stands where the other one does nothing
            before, pressed_s, pressed = box.draft, _now(), pressed + 1
            await self._press(it, key)
            await asyncio.sleep(_LOOK_S)

    async def _look(self, it: Delivery) -> Box | None:
        """What its terminal shows; None: it did not answer. Raises NoTerminal, NoServer."""
        try:
            return it.composer.box(await self._terminal.styled(it.terminal))
        except TerminalUnreachable:
            return None


def _now() -> float:
    return asyncio.get_running_loop().time()
