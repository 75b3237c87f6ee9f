"""Fixtures of tests with the Bot API server. Each test file names them:

api = bot_api()
ann = person(1001, "Ann")
home = connected_instance(MORE)
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.instance import Instance
from tests.telegram_api import Person, TelegramApi
from tests.telegram_instance import configure, start


def bot_api() -> Any:
    """A fixture, to be named `api`: the server."""

    @pytest.fixture
    def api() -> Iterator[TelegramApi]:
        with TelegramApi() as api:
            yield api

    return api


def person(id: int, name: str, *, has_started: bool = False) -> Any:
    """A fixture: a person in the chats of the file's `api`. User 1001 owns the bot of `connected_instance`."""

    @pytest.fixture
    def someone(api: TelegramApi) -> Person:
        return api.person(id, name, name.lower(), has_started=has_started)

    return someone


def connected_instance(more: str = "", section: str = "") -> Any:
    """A fixture, to be named `home`: an instance whose owner `ann` has written to the bot.

    `more`: lines of the configuration. `section`: further keys of its section `telegram`.
    """

    @pytest.fixture
    def home(api: TelegramApi, ann: Person) -> Iterator[Instance]:
        with Instance(more) as instance:
            configure(instance, api, section=section)
            start(instance, api)
            ann.says("/start")
            api.wait_for_message(ann.id, "connected")
            yield instance

    return home
