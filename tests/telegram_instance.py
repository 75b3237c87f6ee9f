"""An instance whose bot talks to the Bot API server of the tests."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

from tests.telegram_api import Person, TelegramApi


class BotInstance(Protocol):
    """`Instance` of tests/instance.py or of tests/sim/stage.py."""

    home: Path
    config: Path
    state: Path

    def start_daemon(self) -> Any: ...


def configure(
    instance: BotInstance,
    api: TelegramApi,
    more: str = "",
    section: str = "",
    owners: Sequence[int] = (1001,),
) -> Path:
    """Add the bot to the configuration. Returns the file with the token.

    `section`: more keys of the section. Without the key `progress` there are no progress cards among the messages.
    """
    token_file = instance.home / "token"
    token_file.write_text(f"{api.token}\n")
    token_file.chmod(0o600)
    if "progress:" not in section:
        section += ", progress: false"
    telegram = f"{{token_file: {token_file}, owner_ids: {[*owners]}, base_url: '{api.url}'{section}}}"
    with instance.config.open("a") as file:
        file.write(f"telegram: {telegram}\n{more}\n")
    return token_file


def start(instance: BotInstance, api: TelegramApi) -> None:
    """Start the daemon, and wait until the first start of the bot is over."""
    instance.start_daemon()
    wait_first_start(instance, api)


def wait_first_start(instance: BotInstance, api: TelegramApi) -> None:
    """Wait until the bot carries out updates: it throws away what waited before its first start."""
    api.wait_for(lambda: any(poll.method == "getUpdates" for poll in api.polls), "a poll")
    api.wait_for(lambda: rows(instance, "SELECT 1 FROM telegram_bots WHERE ready"), "the first start is over")


def connect(api: TelegramApi, owner: Person) -> None:
    """Let an owner write to the bot for the first time, and wait until this is over for the bot, too."""
    owner.says("/start")
    api.wait_for_message(owner.id, "connected")
    api.wait_for(lambda: not api.world.updates, "the message is confirmed")


def rows(instance: BotInstance, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(f"file:{instance.state}/sm.db?mode=ro", uri=True)) as db:
        return list(db.execute(sql))
