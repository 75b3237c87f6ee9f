"""Reads an agent's input box, and presses single keys in it."""

import asyncio
import logging
from itertools import cycle

from sm.errors import TerminalBusy, TerminalUnreachable
from sm.messaging.composer_state import ComposerDelivery, ComposerTerminal
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
            return delivery.composer.box(await self._terminal.styled(delivery.terminal))
        except TerminalUnreachable:
            return None

    async def paste(self, delivery: ComposerDelivery) -> None:
        try:
            await self._terminal.paste(delivery.terminal, delivery.composer.pasted(delivery.letter))
        except TerminalUnreachable as error:  # the box will show if the paste arrived
            log.warning("could not paste: %s", error.message, extra={"sm_session": delivery.session_id})

    async def press(self, delivery: ComposerDelivery, key: str) -> bool:
        """Press a key. False: it was not pressed. True: it may have been, as the box will show."""
        try:
            await self._terminal.press(delivery.terminal, key)
        except TerminalBusy:
            return False
        except TerminalUnreachable as error:
            log.warning(
                "could not press %s: %s", key, error.message, extra={"sm_session": delivery.session_id}
            )
        return True

    async def remove(self, delivery: ComposerDelivery, letter: str, *, begun: bool = False) -> bool:
        """Remove the letter if the box holds nothing else. The caller holds the lock.

        Each key waits for the effect of the one before: an agent takes several keys read at once for text.
        `begun`: an earlier call pressed keys, so the box may hold a beginning of the letter. Returns False if a part
        of the letter may be left: the screen was read half drawn, or the agent reads the keys late.
        """
        keys = cycle(delivery.composer.clearing)
        key, pressed = next(keys), 0
        before: str | None = None
        pressed_s, unseen = 0.0, 0
        while pressed < _KEYS_MAX:
            box = await self.look(delivery)
            if box is None or box.closed is not None or delivery.gone():
                return False
            # A half cleared box holds a beginning of the letter.
            is_ours = delivery.composer.is_ours(box.draft, letter, None) or (
                (
                    before is not None
                    and (letter.startswith(box.draft) or delivery.composer.holds_ours(box.draft, letter))
                )
                or (begun and is_beginning(box.draft, letter))
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


def is_beginning(draft: str, letter: str) -> bool:
    """True if the draft is a beginning of the letter. Ignores white space: the box wraps its rows."""
    beginning = "".join(draft.split())
    return len(beginning) >= _BEGINNING_MIN and "".join(letter.split()).startswith(beginning)
