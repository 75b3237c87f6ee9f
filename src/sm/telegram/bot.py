"""Builds the parts of the bot and runs them. Its import loads the library."""

import asyncio

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


async def serve(section: TelegramSection, token: str, services: Services, link: TelegramLink) -> None:
    """Run the bot until cancelled, or until a part fails."""
    owners = section.owner_ids
    async with BotClient(token, section.base_url) as client:
        forum = Forum(services.telegram, client, link, section)
        threads = Threads(services, section, forum)
        cards = ProgressCards(services, threads, enabled=section.progress)
        conversation = Conversation(services, section, forum)
        poller = Poller(services.telegram, client, link, owners, conversation, section.groups)
        reports = EventReports(services, section, client.bot_id, threads, cards)
        topics = Topics(services.telegram, services.store, forum)
        sender = Sender(services.telegram, client, link, topics)
        outcomes = TextOutcomes(services)
        async with asyncio.TaskGroup() as group:
            for part in (forum, poller, sender, reports, cards, outcomes):
                group.create_task(part.run(), name=f"telegram {type(part).__name__}")
