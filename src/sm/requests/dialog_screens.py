"""Looks for the dialogs of agents on their screens."""

import asyncio
import time
from collections.abc import Mapping

from sm.core.models import Session
from sm.core.observation import Activity
from sm.errors import TerminalError
from sm.providers.base import Provider
from sm.terminals.base import Screen

_SCREEN_WITHIN_S = 5.0


class DialogScreens:
    def __init__(self, providers: Mapping[str, Provider], terminals: Screen) -> None:
        self._providers = providers
        self._terminals = terminals

    async def shows_dialog(self, session: Session) -> bool | None:
        """Return whether a dialog is on the session's screen. Returns None if it cannot be known."""
        reader = self._providers[session.provider].readers.screen
        if reader is None:
            return None
        try:
            async with asyncio.timeout(_SCREEN_WITHIN_S):
                lines = await self._terminals.capture_visible(session.terminal)
        except (TerminalError, TimeoutError):
            return None
        observation = reader.screen(lines, time.time())
        return observation is not None and observation.activity is Activity.BLOCKED
