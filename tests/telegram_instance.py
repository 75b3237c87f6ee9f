"""An instance whose bot talks to the Bot API server of the tests."""

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.instance import Instance, until
from tests.telegram_api import TelegramApi


def configure(instance: Instance, api: TelegramApi, more: str = "", section: str = "") -> Path:
    """Add the bot to the configuration: user 1001 is its owner. Returns the file with the token.

    `section`: more keys of the section. Without the key `progress` there are no progress cards among the messages.
    """
    token_file = instance.home / "token"
    token_file.write_text(f"{api.token}\n")
    token_file.chmod(0o600)
    if "progress:" not in section:
        section += ", progress: false"
    telegram = f"{{token_file: {token_file}, owner_ids: [1001], base_url: '{api.url}'{section}}}"
    with instance.config.open("a") as file:
        file.write(f"telegram: {telegram}\n{more}\n")
    return token_file


def start(instance: Instance, api: TelegramApi) -> None:
    """Start the daemon, and wait until the first start of the bot is over."""
    instance.start_daemon()
    wait_first_start(instance, api)


def wait_first_start(instance: Instance, api: TelegramApi) -> None:
    """Wait until the bot carries out updates: it throws away what waited before its first start."""
    api.wait_for(lambda: any(poll.method == "getUpdates" for poll in api.polls), "a poll")
    until(lambda: rows(instance, "SELECT 1 FROM telegram_bots WHERE ready"), "the first start is over")


def rows(instance: Instance, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(f"file:{instance.state}/sm.db?mode=ro", uri=True)) as db:
        return list(db.execute(sql))
