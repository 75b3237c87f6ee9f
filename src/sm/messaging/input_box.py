"""Reads an agent's input box, presses single keys in it, and removes messages from it."""

import asyncio
import logging
from itertools import cycle

from sm.errors import TerminalBusy, TerminalUnreachable
from sm.messaging import composer_timing as timing
from sm.messaging.composer_state import ComposerDelivery, ComposerState, ComposerTerminal, DialogMonitor
from sm.providers.base import Box, PromptRefusal

log = logging.getLogger(__name__)

_LOOK_S = 0.02
_KEYS_MAX = 300
_KEY_SHOWS_S = 0.3
_KEYS_UNSEEN_MAX = 4
_BEGINNING_MIN = 4
"""Shorter drafts may be a person's."""


class InputBox:
    """The input box of a delivery's terminal. Every method may raise NoTerminal and NoServer."""

    def __init__(self, terminal: ComposerTerminal, monitor: DialogMonitor) -> None:
        self._terminal = terminal
        self._monitor = monitor

    async def look(self, delivery: ComposerDelivery) -> Box | None:
        """The box as the terminal shows it; None: the terminal did not answer."""
        try:
            return delivery.box_reader.box(await self._terminal.capture_styled(delivery.terminal))
        except TerminalUnreachable:
            return None

    async def refusal(self, delivery: ComposerDelivery) -> PromptRefusal | None:
        """Look for a refusal as `BoxReader.refusal` does. Returns None also when the terminal did not answer."""
        try:
            lines = await self._terminal.capture_styled(delivery.terminal)
        except TerminalUnreachable:
            return None
        return delivery.box_reader.refusal(lines, delivery.text)

    async def paste_next(self, delivery: ComposerDelivery, state: ComposerState) -> None:
        """Paste the next group of the message. The caller holds the lock, and has looked at the box."""
        group, *state.rest = state.rest
        state.pasted += "".join(group)
        try:
            await self._terminal.paste(delivery.terminal, *group)
        except TerminalUnreachable as error:  # the box will show if the paste arrived
            log.warning("could not paste: %s", error.message, extra={"sm_session": delivery.session_id})

    async def is_drawn(self, delivery: ComposerDelivery) -> bool:
        """True if the box shows all keys that a person has pressed; False also when the terminal did not answer."""
        try:
            pause_s = await self._terminal.key_pause_s(delivery.terminal)
        except TerminalUnreachable:
            return False
        return pause_s >= timing.DRAWN_WITHIN_S and not await self.has_unread_input(delivery)

    async def show_line(self, delivery: ComposerDelivery, line: str) -> None:
        """Show a line to the people at the terminal, if it answers."""
        try:
            await self._terminal.show_line(delivery.terminal, line)
        except TerminalUnreachable as error:
            log.warning("could not show a line: %s", error.message, extra={"sm_session": delivery.session_id})

    async def has_unread_input(self, delivery: ComposerDelivery) -> bool:
        """True until the agent has read all keys and pastes, also when the terminal did not answer."""
        try:
            if await self._terminal.has_unread_input(delivery.terminal):
                return True
        except TerminalUnreachable:
            return True
        return await delivery.agent_has_unread_input()

    async def press(self, delivery: ComposerDelivery, key: str) -> bool:
        """Press a key. False: it was not pressed. True: it was probably pressed; look at the box to be sure."""
        try:
            await self._terminal.press(delivery.terminal, key)
        except TerminalBusy:
            return False
        except TerminalUnreachable as error:
            log.warning(
                "could not press the key %s: %s",
                key,
                error.message,
                extra={"sm_session": delivery.session_id},
            )
        return True

    async def is_enterable(self, delivery: ComposerDelivery, state: ComposerState) -> bool:
        """True if no dialog is open and the box holds only the message, or all of it that was pasted so far."""
        if delivery.is_gone() or await self._monitor.blocked_reason(delivery.session_id) is not None:
            return False
        box = await self.look(delivery)  # last, right before the Enter
        return box is not None and box.closed is None and state.holds_only_message(delivery, box)

    async def redraw(
        self, delivery: ComposerDelivery, state: ComposerState, box: Box, after_s: float
    ) -> None:
        """Redraw a screen that was unknown for `after_s`: claude may have drawn one thing over another.

        A dialog is never redrawn: it is a known screen, or the agent publishes it.
        """
        if not box.unknown or delivery.box_reader.redraw_key is None or delivery.is_gone():
            return
        if state.garbled_s is None:
            state.garbled_s = timing.now()
        if timing.now() >= state.garbled_s + after_s:
            state.garbled_s = timing.now() + timing.DRAWN_AGAIN_AFTER_S
            await self.press(delivery, delivery.box_reader.redraw_key)

    async def remove(self, delivery: ComposerDelivery, state: ComposerState, text: str, shown: str) -> None:
        """Remove a message that the box shows as the draft `shown`. The caller holds the lock.

        The removal ends early when the screen is read half drawn, or when the agent is stopped. The next delivery
        continues it: otherwise the rest would look like a person's draft, and be put aside.
        """
        begun = state.removing == text
        state.removing, state.removing_shown = text, shown
        if await self._press_clearing_keys(delivery, text, shown, begun=begun):
            state.removing = ""

    async def clear(self, delivery: ComposerDelivery, state: ComposerState) -> None:
        """Remove the copy of the delivered message that the box may hold."""
        async with state.lock:
            box = await self.look(delivery)
            # A box that never showed the message holds no copy of it, even if the draft looks like one.
            if (
                box is None
                or box.closed is not None
                or not delivery.box_reader.shows_message(box.draft, delivery.text, state.shown)
                or not state.holds_only_message(delivery, box)
            ):
                return
            await self.remove(delivery, state, delivery.text, box.draft)
        await delivery.message_in_draft(box.draft)

    async def _press_clearing_keys(
        self, delivery: ComposerDelivery, text: str, shown: str, *, begun: bool
    ) -> bool:
        """Remove the message `text`, shown as `shown`, if the box holds nothing else.

        Each key waits for the effect of the one before: an agent takes several keys read at once for text.
        `begun`: an earlier call pressed keys, so the box may hold a beginning of the message. Returns False if a part
        of the message may be left: the screen was read half drawn, or the agent reads the keys late.
        """
        keys = cycle(delivery.box_reader.clearing(shown))
        key, pressed = next(keys), 0
        before: str | None = None
        pressed_s, unseen = 0.0, 0
        while pressed < _KEYS_MAX:
            box = await self.look(delivery)
            if box is None or box.closed is not None or delivery.is_gone():
                return False
            # A half cleared box holds a beginning of the message.
            is_ours = delivery.box_reader.shows_message(box.draft, text, None) or (
                (
                    before is not None
                    and (text.startswith(box.draft) or delivery.box_reader.contains_message(box.draft, text))
                )
                or (begun and is_beginning(box.draft, text))
            )
            if not box.draft or not is_ours:
                return not box.draft
            if box.draft != before:
                unseen = 0
            elif timing.now() < pressed_s + _KEY_SHOWS_S:
                await asyncio.sleep(_LOOK_S)
                continue
            elif (unseen := unseen + 1) >= _KEYS_UNSEEN_MAX:
                return False
            else:
                key = next(keys)  # the last key has no effect at this position of the cursor
            before, pressed_s, pressed = box.draft, timing.now(), pressed + 1
            await self.press(delivery, key)
            await asyncio.sleep(_LOOK_S)
        return False


def is_beginning(draft: str, text: str) -> bool:
    """True if the draft is a beginning of the message `text`. Ignores white space: the box wraps its rows."""
    beginning = "".join(draft.split())
    return len(beginning) >= _BEGINNING_MIN and "".join(text.split()).startswith(beginning)
