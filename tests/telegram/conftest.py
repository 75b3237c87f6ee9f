"""The bot's parts on a real database, with the library's client and the Bot API server of the tests."""

import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from sm.config import TelegramSection
from sm.core.telegram_model import telegram_user
from sm.services import Reads, Telegram, TelegramLink
from sm.sessions.authorizer import Authorizer
from sm.sessions.chat_users import ChatUsers
from sm.store import Store
from sm.telegram.client import BotClient
from sm.telegram.forum import Forum
from sm.telegram.sender import Sender
from sm.telegram.topics import Topics
from tests.telegram_api import TelegramApi
from tests.telegram_fixtures import bot_api, person

api = bot_api()
ann = person(1001, "Ann", has_started=True)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "sm.db")


@pytest.fixture
async def store(path: str) -> AsyncIterator[Store]:
    async with await Store.open(path) as opened:
        yield opened


@pytest.fixture
async def client(api: TelegramApi) -> AsyncIterator[BotClient]:
    async with BotClient(api.token, api.url) as client:
        yield client


def records(store: Store, link: TelegramLink, owners: tuple[int, ...] = (1001,)) -> Telegram:
    """The use cases of the bot, on this store."""

    def audit(who: str, what: str, target: str | None, decision: str, reason: str | None) -> None:
        raise AssertionError("nothing is written to the audit log")

    users = ChatUsers(store, audit, map(telegram_user, owners))
    return Telegram(store, Authorizer(store, audit), audit, link, owners, users)


def sender(
    store: Store, client: BotClient, link: TelegramLink, clock: Callable[[], float] = time.monotonic
) -> Sender:
    """A sender for private chats. `clock` is also its time of day."""
    telegram = records(store, link)
    topics = Topics(telegram, Reads(store), Forum(telegram, client, link, TelegramSection()))
    wall = time.time if clock is time.monotonic else clock
    return Sender(telegram, client, link, topics, clock, wall)
