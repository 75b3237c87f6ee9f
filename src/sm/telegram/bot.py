"""Builds the parts of the bot and runs them. Its import loads the library."""

import asyncio
from collections.abc import Callable

from sm.config import TelegramSection
from sm.services import Reads, Telegram, TelegramLink
from sm.services.parts import DoorParts
from sm.telegram.card_steps import CardSteps
from sm.telegram.client import BotClient
from sm.telegram.conversation import Conversation
from sm.telegram.forum import Forum
from sm.telegram.poller import Poller
from sm.telegram.progress import ProgressCards
from sm.telegram.reports import EventReports
from sm.telegram.sender import Sender
from sm.telegram.shown_objects import ShownObjects
from sm.telegram.text_outcomes import TextOutcomes
from sm.telegram.threads import Threads
from sm.telegram.topics import Topics
from sm.telegram.views import ListedWork

Clock = Callable[[], float]


async def serve(
    section: TelegramSection,
    token: str,
    parts: DoorParts,
    link: TelegramLink,
    wall: Clock,
    steady: Clock,
    *,
    telegram: Telegram,
    store: Reads,
) -> None:
    """Run the bot until cancelled, or until a part fails. `wall` and `steady` are the clocks of the daemon."""
    owners = section.owner_ids
    async with BotClient(token, section.base_url, tell=link.tell_unreadable) as client:
        forum = Forum(telegram, client, link, section)
        threads = parts.bound(Threads)(section, forum)
        cards = parts.bound(ProgressCards)(threads, section, steady)
        of_chats = parts.plus(*(parts.bound(kind)() for kind in (CardSteps, ListedWork, ShownObjects)))
        conversation = of_chats.bound(Conversation)(section, forum, wall, of_chats)
        poller = Poller(telegram, client, link, owners, conversation, section.groups, steady)
        reports = parts.bound(EventReports)(section, client.bot_id, threads, cards, wall)
        topics = Topics(telegram, store, forum)
        sender = Sender(telegram, client, link, topics, steady, wall)
        outcomes = parts.bound(TextOutcomes)(steady)
        async with asyncio.TaskGroup() as group:
            for part in (forum, poller, sender, reports, cards, outcomes):
                group.create_task(part.run(), name=f"telegram {type(part).__name__}")
