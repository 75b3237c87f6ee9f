"""What claude publishes of its state, however the file looks."""

import json
from typing import Any

import pytest

from sm.core.models import Process
from sm.core.observation import Activity
from sm.providers.claude.state import ClaudeStateReader

READER = ClaudeStateReader()
PROCESS = Process(4711, "boot/123")
AT_MS = 1_790_000_000_123
ID = "5e55aaaa-0000-4000-8000-000000000001"


def state(**more: Any) -> bytes:
    whole = {"pid": 4711, "sessionId": ID, "status": "idle", "statusUpdatedAt": AT_MS, "procStart": "123"}
    return json.dumps(whole | more).encode()


def test_what_claude_publishes_is_read() -> None:
    found = READER.state(state(), PROCESS)
    assert found is not None
    assert (found.activity, found.at) == (Activity.IDLE, AT_MS / 1000)
    assert READER.conversation(state(), PROCESS) == ID
    assert READER.state(state(statusUpdatedAt=float(AT_MS)), PROCESS) == found


@pytest.mark.parametrize(
    "odd",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        10**400,
        -1,
        0,
        1e14,
        1e300,
        True,
        "1790000000123",
        None,
        [],
        {},
    ],
)
def test_a_state_of_no_time_says_nothing(odd: Any) -> None:
    assert READER.state(state(statusUpdatedAt=odd), PROCESS) is None
    assert READER.conversation(state(statusUpdatedAt=odd), PROCESS) is None


@pytest.mark.parametrize("odd", [True, 4711.0, "4711", None, [], 10**400, float("nan")])
def test_a_state_of_no_process_says_nothing(odd: Any) -> None:
    assert READER.state(state(pid=odd), PROCESS) is None
    assert READER.state(state(pid=odd), Process(1, "boot/123")) is None
    assert READER.conversation(state(pid=odd), PROCESS) is None


@pytest.mark.parametrize(
    "name", ["waitingFor", "sessionId", "procStart", "status", "statusUpdatedAt", "pid", "more"]
)
@pytest.mark.parametrize("depth", [900, 990, 30_000])
def test_a_state_with_a_tower_of_brackets_raises_nothing(name: str, depth: int) -> None:
    raw = state(**{"status": "waiting", name: "HERE"}).replace(b'"HERE"', b"[" * depth + b"]" * depth)
    found, conversation = READER.state(raw, PROCESS), READER.conversation(raw, PROCESS)
    if found is not None and name != "more":
        assert (found.reason, conversation) in (("it waits: an answer", ID), ("it waits: an answer", None))


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"1", b'"x"', b"null", b"\xff", b"{}", b"[" * 60_000, b"9" * 5_000]
)
def test_what_is_no_state_says_nothing(raw: bytes) -> None:
    assert READER.state(raw, PROCESS) is None
    assert READER.conversation(raw, PROCESS) is None


@pytest.mark.parametrize(
    ("environment", "home"),
    [
        ({"HOME": "/home/me"}, "/home/me/.claude"),
        ({"HOME": "/home/me", "CLAUDE_CONFIG_DIR": ""}, "/home/me/.claude"),
        ({"HOME": "/home/me", "CLAUDE_CONFIG_DIR": "/cfg"}, "/cfg"),
    ],
)
def test_state_files_lie_in_the_directory_of_claude(environment: dict[str, str], home: str) -> None:
    assert READER.path(environment, 7) == f"{home}/sessions/7.json"
