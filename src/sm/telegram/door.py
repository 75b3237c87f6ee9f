"""Runs the bot: imports the library in a thread, then polls and sends. No failure of the bot ends the daemon."""

import asyncio
import logging
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType

from sm.config import TelegramSection
from sm.core.backoff import Backoff
from sm.services import TelegramLink
from sm.services.parts import DoorParts

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
NOT_INSTALLED = "python-telegram-bot is not installed; sm doctor names the command that installs it"


class TelegramDoor:
    """The bot of the section `telegram:`, which has a token and owners."""

    def __init__(
        self,
        section: TelegramSection,
        token: str,
        parts: DoorParts,
        link: TelegramLink,
        wall: Callable[[], float],
        steady: Callable[[], float],
    ) -> None:
        self._section = section
        self._token = token
        self._parts = parts
        self._clocks = wall, steady
        self.link = link

    async def run(self) -> None:
        """Run until cancelled. No failure of the bot raises."""
        backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        while True:
            try:
                await self._serve()
            except ImportError as error:
                self.link.off = NOT_INSTALLED
                log.error("cannot use telegram: %s (%s)", NOT_INSTALLED, error.name)
            except Exception:
                log.exception("failed to run the bot of telegram")
            if self.link.off is not None:
                await asyncio.get_running_loop().create_future()
            await asyncio.sleep(backoff.next_s())

    async def _serve(self) -> None:
        # The import takes a second of one core, which the event loop must not wait for.
        bot = await asyncio.to_thread(load_bot)
        serve = self._parts.bound(bot.serve)
        await serve(self._section, self._token, self._parts, self.link, *self._clocks)


def load_bot() -> ModuleType:
    """Import the parts of the bot, and with them the library. Raises ImportError: it is not installed."""
    # httpx imports its own command line, if it can: with click, rich and pygments it takes 5.5 MB and half a second.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]  # None forbids the import
    return import_module("sm.telegram.bot")
