"""Looks for the dialogs of agents on their screens."""

import asyncio
import time

from sm.core.models import Session
from sm.core.observation import Activity
from sm.errors import TerminalError
from sm.sessions.manager import Manager
from sm.terminals.base import Screen

_SCREEN_WITHIN_S = 5.0


class DialogScreens:
    def __init__(self, manager: Manager, terminals: Screen) -> None:
        self._manager = manager
        self._terminals = terminals

    async def shows_dialog(self, session: Session) -> bool | None:
        """Return whether a dialog is on the session's screen. Returns None if it cannot be known."""
        reader = self._manager.provider(session).readers.screen
        if reader is None:
            return None
        try:
            async with asyncio.timeout(_SCREEN_WITHIN_S):
                lines = await self._terminals.capture_visible(session.terminal)
        except (TerminalError, TimeoutError):
            return None
        observation = reader.screen(lines, time.time())
        return observation is not None and observation.activity is Activity.BLOCKED
