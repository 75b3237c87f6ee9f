"""Closes the dialog that an agent CLI opens by itself when it meets its usage limit."""

import asyncio
import logging
import time
from collections.abc import Mapping

from sm.core.effects import Effect
from sm.core.models import Session
from sm.core.statuses import Status
from sm.errors import NoServer, NoTerminal
from sm.messaging.composer import ComposerDriver
from sm.providers.base import Provider
from sm.providers.readers import ScreenReader
from sm.store import Store
from sm.terminals.base import Terminals

log = logging.getLogger(__name__)

_OPENS_WITHIN_S = 15.0
"""claude opens the dialog a moment after its turn has failed, and only at the first limit of a process."""
_LOOK_S = 0.25
_GIVES_UP_S = 600.0
"""The longest time in which a waiting agent is looked at."""
_LATE_LOOK_S = 2.0
"""The pause between later looks: another dialog may be open, which a person leaves open."""
_PRESSES_MAX = 5
_DRAWN_WITHIN_S = 1.0
"""The pause after a key: the dialog may still be on the screen for a moment, and claude may have lost the key."""
_KEY = "Escape"


class LimitDialogs:
    """Presses Escape in that dialog, and no other key: an option of the dialog may cost money.

    An effect may be repeated: each key needs the dialog on the screen, so without one nothing is pressed.
    """

    def __init__(
        self, store: Store, providers: Mapping[str, Provider], terminals: Terminals, composer: ComposerDriver
    ) -> None:
        self._store = store
        self._providers = providers
        self._terminals = terminals
        self._composer = composer

    async def close(self, effect: Effect) -> str | None:
        """Wait for the dialog, and close it. Returns the reason for giving up, or None when it is not open.

        An agent that works again may still open it: claude 2.1.332 opens it with a command after the failed turn. A
        busy machine may draw it late, while the agent says that it waits: then the wait is longer.
        """
        began_s = time.monotonic()
        pressed = 0
        while True:
            session = self._store.sessions.get(effect.session_id)
            reader = None if session is None else self._providers[session.provider].readers.screen
            if session is None or session.exit is not None or reader is None:
                return None
            passed_s = time.monotonic() - began_s
            is_late = passed_s >= _OPENS_WITHIN_S
            waits = session.status is Status.WAITING_INPUT and passed_s < _GIVES_UP_S
            if is_late and not pressed and not waits:
                return None
            try:
                if await self._is_open(session, reader):
                    if pressed == _PRESSES_MAX:
                        return f"the dialog about the usage limit did not close after {pressed} keys"
                    pressed += await self._press(session, reader)
                    await asyncio.sleep(_DRAWN_WITHIN_S)
                elif pressed:
                    return None
            except (NoTerminal, NoServer):
                return None
            await asyncio.sleep(_LATE_LOOK_S if is_late else _LOOK_S)

    async def _is_open(self, session: Session, reader: ScreenReader) -> bool:
        return reader.limit_dialog(await self._terminals.capture_visible(session.terminal))

    async def _press(self, session: Session, reader: ScreenReader) -> bool:
        """Press the key, unless the dialog has closed since: then the key could have another meaning.

        Returns False if it was not pressed.
        """
        async with self._composer.hold_for_interrupt(session.id):
            if not await self._is_open(session, reader):
                return False
            if await self._terminals.press(session.terminal, _KEY) is not None:
                return False
        log.info("closed the dialog about a usage limit", extra={"sm_session": session.id})
        return True
