"""Fixtures of tests with the Bot API server. Each test file names them:

api = bot_api(PlayedTelegramApi)
ann = person(1001, "Ann")
home = connected_instance(MORE)
"""

import functools
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.sim.replacing import replaced
from tests.sim.stage import Instance
from tests.sim.telegram import PlayedTelegramApi
from tests.telegram_api import Person, TelegramApi
from tests.telegram_instance import configure, connect, start

certificates = functools.cache(httpx.create_ssl_context)


def bot_api(kind: type[TelegramApi] = TelegramApi) -> Any:
    """A fixture, to be named `api`: the server. `kind` PlayedTelegramApi: for a played instance."""

    @pytest.fixture
    def api() -> Iterator[TelegramApi]:
        # A megabyte of certificates, which only the first client of this process reads.
        with replaced((httpx, "create_ssl_context", certificates)), kind() as api:
            yield api

    return api


def person(id: int, name: str, *, has_started: bool = False) -> Any:
    """A fixture: a person in the chats of the file's `api`. User 1001 owns the bot of `connected_instance`."""

    @pytest.fixture
    def someone(api: TelegramApi) -> Person:
        return api.person(id, name, name.lower(), has_started=has_started)

    return someone


def connected_instance(more: str = "", section: str = "") -> Any:
    """A fixture, to be named `home`: a played instance whose owner `ann` has written to the bot.

    `more`: lines of the configuration. `section`: further keys of its section `telegram`.
    """

    @pytest.fixture
    def home(api: PlayedTelegramApi, ann: Person) -> Iterator[Instance]:
        with Instance(more) as instance:
            api.serve(instance)
            configure(instance, api, section=section)
            start(instance, api)
            connect(api, ann)
            yield instance

    return home
