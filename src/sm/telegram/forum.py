"""The first group of the configuration: whether it shows sessions, and what the bot may do in it.

Telegram is asked at the start, and when it tells of a change of the bot's rights. The answer is stored, so that a start
without Telegram uses the last one.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from sm.config import TelegramSection
from sm.core.backoff import Backoff
from sm.core.telegram_model import BotMethod, Need, NewCall, TelegramChange
from sm.core.telegram_threads import ForumFacts
from sm.errors import StorageFull
from sm.services import Telegram, TelegramLink
from sm.telegram.client import BotClient
from sm.telegram.outcome import CallFailed, Rejected, Unauthorized

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 300.0
NO_RIGHT = (
    "sm may not manage topics in this group. Make the bot an administrator with the right to manage topics. Until then "
    "the reports of a session reply to its first message."
)


class Forum:
    """The group that shows sessions, if it is a forum and `telegram.topics` is not `none`."""

    def __init__(
        self, telegram: Telegram, client: BotClient, link: TelegramLink, section: TelegramSection
    ) -> None:
        self._telegram = telegram
        self._client = client
        self._link = link
        self._group = section.groups[0] if section.groups and section.topics != "none" else None
        self._owners = section.owner_ids
        self._facts: ForumFacts | None = None
        self._asked = asyncio.Event()
        self._stale = asyncio.Event()

    @property
    def chat_id(self) -> int | None:
        """The chat that shows sessions, or None if only private chats do."""
        return self._facts.chat_id if self._facts is not None and self._facts.is_forum else None

    @property
    def can_manage(self) -> bool:
        """The bot may make topics."""
        return self._facts is not None and self._facts.is_forum and self._facts.can_manage

    @property
    def owners(self) -> Sequence[int]:
        """The owners who read the forum, and need no report in their private chats."""
        return () if self.chat_id is None or self._facts is None else self._facts.owners

    def is_group(self, chat_id: int) -> bool:
        return chat_id in (self._group, self.chat_id)

    async def known(self) -> None:
        """Wait until there is an answer of Telegram, also one of an earlier start, or the first question failed."""
        if self._group is not None:
            await self._asked.wait()

    def check_again(self) -> None:
        """Ask Telegram again: the rights of the bot have changed."""
        self._stale.set()

    async def run(self) -> None:
        """Keep the facts up to date until cancelled."""
        if self._group is None:
            return
        chat_id = await self._current(self._group)
        self._facts = await self._telegram.threads.forum(chat_id)
        if self._facts is not None:
            self._asked.set()
        backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        while self._link.off is None:
            self._stale.clear()
            is_answered = await self._ask(await self._current(self._group))
            self._asked.set()
            if is_answered:
                backoff.reset()
                await self._stale.wait()
            else:
                await asyncio.sleep(backoff.next_s())

    async def refuse(self, reason: str) -> None:
        """Telegram refused to manage a topic: use replies until the rights of the bot change."""
        log.warning("telegram refuses to manage topics: %s", reason)
        if self._facts is not None:
            await self._keep(replace(self._facts, can_manage=False))

    async def _current(self, group: int) -> int:
        """The group, or the supergroup that replaced it."""
        moved = {chat.chat_id: chat.migrated_to for chat in await self._telegram.chats()}
        return moved.get(group) or group

    async def _ask(self, chat_id: int) -> bool:
        try:
            facts = await self._client.forum(chat_id, self._owners)
        except CallFailed as failed:
            if isinstance(failed.failure, Unauthorized | Rejected):  # the bot is not in the group
                await self._keep(ForumFacts(chat_id, is_forum=False, can_manage=False))
                return True
            log.info("could not ask telegram about the group %d: %s", chat_id, failed.failure)
            return False
        await self._keep(facts)
        return True

    async def _keep(self, facts: ForumFacts) -> None:
        """Store the facts. The group is told once that the bot needs a right, until it has the right again."""
        lacks_right = facts.is_forum and not facts.can_manage
        was_told = self._facts is not None and self._facts.is_told and self._facts.chat_id == facts.chat_id
        facts = replace(facts, is_told=lacks_right)
        if facts == self._facts:
            return
        self._facts = facts
        told = NewCall(facts.chat_id, BotMethod.SEND_MESSAGE, {"text": NO_RIGHT}, Need.ENDING)
        calls = [told] if lacks_right and not was_told else []
        try:
            await self._telegram.apply(TelegramChange(calls, forum=facts))
        except StorageFull as error:
            log.warning("could not store the facts about the group: %s", error.message)
