"""Reads an agent's input box, and presses single keys in it."""

import asyncio
import logging
from itertools import cycle

from sm.errors import TerminalBusy, TerminalUnreachable
from sm.messaging.composer_state import ComposerDelivery, ComposerTerminal
from sm.messaging.composer_timing import DRAWN_WITHIN_S
from sm.providers.base import Box

log = logging.getLogger(__name__)

_LOOK_S = 0.02
_KEYS_MAX = 300
_KEY_SHOWS_S = 0.3
_KEYS_UNSEEN_MAX = 4
_BEGINNING_MIN = 4
"""Shorter drafts may be a person's."""


class InputBox:
    """The input box of a delivery's terminal. Every method may raise NoTerminal and NoServer."""

    def __init__(self, terminal: ComposerTerminal) -> None:
        self._terminal = terminal

    async def look(self, delivery: ComposerDelivery) -> Box | None:
        """The box as the terminal shows it; None: the terminal did not answer."""
        try:
            return delivery.box_reader.box(await self._terminal.capture_styled(delivery.terminal))
        except TerminalUnreachable:
            return None

    async def paste(self, delivery: ComposerDelivery) -> None:
        try:
            await self._terminal.paste(delivery.terminal, delivery.box_reader.paste_text(delivery.text))
        except TerminalUnreachable as error:  # the box will show if the paste arrived
            log.warning("could not paste: %s", error.message, extra={"sm_session": delivery.session_id})

    async def is_drawn(self, delivery: ComposerDelivery) -> bool:
        """True if the box shows all keys that a person has pressed; False also when the terminal did not answer."""
        try:
            return await self._terminal.key_pause_s(delivery.terminal) >= DRAWN_WITHIN_S
        except TerminalUnreachable:
            return False

    async def show_line(self, delivery: ComposerDelivery, line: str) -> None:
        """Show a line to the people at the terminal, if it answers."""
        try:
            await self._terminal.show_line(delivery.terminal, line)
        except TerminalUnreachable as error:
            log.warning("could not show a line: %s", error.message, extra={"sm_session": delivery.session_id})

    async def has_unread_input(self, delivery: ComposerDelivery) -> bool:
        """True also when the terminal did not answer."""
        try:
            return await self._terminal.has_unread_input(delivery.terminal)
        except TerminalUnreachable:
            return True

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

    async def remove(self, delivery: ComposerDelivery, text: str, *, begun: bool = False) -> bool:
        """Remove the message `text` if the box holds nothing else. The caller holds the lock.

        Each key waits for the effect of the one before: an agent takes several keys read at once for text.
        `begun`: an earlier call pressed keys, so the box may hold a beginning of the message. Returns False if a part
        of the message may be left: the screen was read half drawn, or the agent reads the keys late.
        """
        keys = cycle(delivery.box_reader.clearing)
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
            elif asyncio.get_running_loop().time() < pressed_s + _KEY_SHOWS_S:
                await asyncio.sleep(_LOOK_S)
                continue
            elif (unseen := unseen + 1) >= _KEYS_UNSEEN_MAX:
                return False
            else:
                key = next(keys)  # the last key has no effect at this position of the cursor
            before, pressed_s, pressed = box.draft, asyncio.get_running_loop().time(), pressed + 1
            await self.press(delivery, key)
            await asyncio.sleep(_LOOK_S)
        return False


def is_beginning(draft: str, text: str) -> bool:
    """True if the draft is a beginning of the message `text`. Ignores white space: the box wraps its rows."""
    beginning = "".join(draft.split())
    return len(beginning) >= _BEGINNING_MIN and "".join(text.split()).startswith(beginning)
