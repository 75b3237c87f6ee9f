"""The bot's parts on a real database, with the library's client and the Bot API server of the tests."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from sm.store import Store
from sm.telegram.client import BotClient
from tests.telegram_api import Person, TelegramApi


@pytest.fixture
def api() -> Iterator[TelegramApi]:
    with TelegramApi() as api:
        yield api


@pytest.fixture
def ann(api: TelegramApi) -> Person:
    """An owner who has written to the bot."""
    return api.person(1001, "Ann", "ann", has_started=True)


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
