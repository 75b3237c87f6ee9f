"""Hints of refusals name commands that a person in a chat can write."""

import pytest

from sm.errors import NotFound, UsageError
from sm.telegram.commands import COMMANDS
from sm.telegram.hints import IN_CHAT, in_chat, refusal


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        ("list sessions: sm all", "list sessions: /list all"),
        ("sm approve r1, or: sm deny r1", "/approve r1, or: /deny r1"),
        ("sm spawn Engineer", "/new Engineer"),
        ("sm kill 1a2b3c4d, or add --force", "/kill 1a2b3c4d, or add --force"),
        ("sm kill --force 1a2b3c4d", "sm kill --force 1a2b3c4d"),
        ("sm attach 1a2b3c4d", "sm attach 1a2b3c4d"),
        ("sm sends no keys; /list", "sm sends no keys; /list"),
    ],
)
def test_hint_names_the_command_of_the_bot_if_there_is_one(hint: str, shown: str) -> None:
    assert in_chat(hint) == shown


def test_every_named_command_exists() -> None:
    assert {words.split()[0] for words in IN_CHAT.values()} <= COMMANDS.keys()


def test_refusal_keeps_the_words_of_sm() -> None:
    assert refusal(UsageError("usage: /kill ID")) == "usage: /kill ID"
    assert refusal(NotFound("no such request: r7", "sm requests")) == "no such request: r7\nhint: /requests"
