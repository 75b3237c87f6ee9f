"""Builds the parts of the bot and runs them. Its import loads the library."""

import asyncio
from collections.abc import Callable

from sm.config import TelegramSection
from sm.services import Services, TelegramLink
from sm.telegram.client import BotClient
from sm.telegram.conversation import Conversation
from sm.telegram.forum import Forum
from sm.telegram.poller import Poller
from sm.telegram.progress import ProgressCards
from sm.telegram.reports import EventReports
from sm.telegram.sender import Sender
from sm.telegram.text_outcomes import TextOutcomes
from sm.telegram.threads import Threads
from sm.telegram.topics import Topics

Clock = Callable[[], float]


async def serve(
    section: TelegramSection, token: str, services: Services, link: TelegramLink, wall: Clock, steady: Clock
) -> None:
    """Run the bot until cancelled, or until a part fails. `wall` and `steady` are the clocks of the daemon."""
    owners = section.owner_ids
    async with BotClient(token, section.base_url, tell=link.tell_unreadable) as client:
        forum = Forum(services.telegram, client, link, section)
        threads = Threads(services, section, forum)
        cards = ProgressCards(services, threads, enabled=section.progress, clock=steady)
        conversation = Conversation(services, section, forum, wall)
        poller = Poller(services.telegram, client, link, owners, conversation, section.groups, steady)
        reports = EventReports(services, section, client.bot_id, threads, cards, wall)
        topics = Topics(services.telegram, services.store, forum)
        sender = Sender(services.telegram, client, link, topics, steady, wall)
        outcomes = TextOutcomes(services, steady)
        async with asyncio.TaskGroup() as group:
            for part in (forum, poller, sender, reports, cards, outcomes):
                group.create_task(part.run(), name=f"telegram {type(part).__name__}")
