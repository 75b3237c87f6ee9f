"""`sm telegram`."""

import json

from tests.cli.peer import answer
from tests.played.cli.command import Sm
from tests.played.cli.peer import Peer

STATUS = {
    "configured": True,
    "bot": "sm_test_bot",
    "last_answer_s": 3.2,
    "trouble": None,
    "waiting": 1,
    "dropped": 2,
    "left_out": 0,
    "last_dropped": [
        {"at": "2026-01-01T00:00:00Z", "chat_id": 6, "method": "send_message", "reason": "Forbidden\x1b[2J"}
    ],
    "chats": [{"chat_id": 1001, "kind": "private", "title": "Ann", "seen_at": None}],
    "owners": ["telegram:1001"],
    "paired": 2,
    "groups": [],
    "clock_ahead_s": 0.4,
}


def test_telegram_status_shows_the_connection_the_queue_and_the_chats(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/telegram", answer(STATUS), answer(STATUS), answer({**STATUS, "configured": False}))
    *lines, dropped = run("telegram", "status").out.splitlines()
    assert lines == [
        "@sm_test_bot: last answer 3s ago",
        "1 call waiting, 2 dropped, 0 reports left out",
        "1 owner, 2 paired users",
        "chat 1001 (private): Ann",
    ]
    assert dropped.startswith("dropped ")
    assert dropped.endswith(" ago: send_message to 6: Forbidden [2J")
    assert json.loads(run("telegram", "status", "--json").out) == STATUS
    assert run("telegram", "status").out.startswith("No bot is configured")


def test_telegram_status_shows_the_trouble_of_a_bot_that_has_not_answered(run: Sm, peer: Peer) -> None:
    silent = {
        **STATUS,
        "bot": None,
        "last_answer_s": None,
        "trouble": "telegram has not answered",
        "chats": [],
    }
    peer.script("GET /v1/telegram", answer(silent))
    lines = run("telegram", "status").out.splitlines()
    assert lines[:2] == ["the bot: no answer yet", "trouble: telegram has not answered"]


def test_telegram_test_names_the_users_of_the_message(run: Sm, peer: Peer) -> None:
    peer.script("POST /v1/telegram/test", answer({"users": ["telegram:1001"]}))
    assert run("telegram", "test").out == "Sending a test message to telegram:1001\n"
