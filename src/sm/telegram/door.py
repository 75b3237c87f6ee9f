"""Runs the bot: imports the library in a thread, then polls and sends. No failure of the bot ends the daemon."""

import asyncio
import logging
from importlib import import_module

from sm.config import TelegramSection
from sm.core.backoff import Backoff
from sm.services import Services
from sm.store import Store

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
NOT_INSTALLED = "python-telegram-bot is not installed: pip install 'sm-sessions[telegram]'"


class TelegramDoor:
    """The bot of the section `telegram:`, which has a token and owners."""

    def __init__(
        self,
        section: TelegramSection,
        token: str,
        store: Store,
        services: Services,
    ) -> None:
        self._section = section
        self._token = token
        self._store = store
        self._services = services
        assert services.telegram.link is not None  # wiring makes one for a token
        self.link = services.telegram.link

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
        modules = [
            await asyncio.to_thread(import_module, f"sm.telegram.{name}")
            for name in ("client", "poller", "sender", "reports", "conversation", "text_outcomes")
        ]
        client_module, poller_module, sender_module, reports_module, conversation_module, texts_module = (
            modules
        )
        owners = self._section.owner_ids
        async with client_module.BotClient(self._token, self._section.base_url) as client:
            conversation = conversation_module.Conversation(self._services, self._section)
            poller = poller_module.Poller(
                self._services.telegram, client, self.link, owners, conversation, self._section.groups
            )
            reports = reports_module.EventReports(self._services, self._section, client.bot_id)
            outcomes = texts_module.TextOutcomes(self._services)
            sender = sender_module.Sender(self._store, client, self.link)
            async with asyncio.TaskGroup() as group:
                group.create_task(poller.run(), name="telegram poller")
                group.create_task(sender.run(), name="telegram sender")
                group.create_task(reports.run(), name="telegram reports")
                group.create_task(outcomes.run(), name="telegram outcomes of texts")
