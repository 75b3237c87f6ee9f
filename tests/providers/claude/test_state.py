"""Reading claude's state file, also when it is malformed."""

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
    fields = {"pid": 4711, "sessionId": ID, "status": "idle", "statusUpdatedAt": AT_MS, "procStart": "123"}
    return json.dumps(fields | more).encode()


def test_state_and_conversation_are_read_from_the_state_file() -> None:
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
def test_state_is_none_when_its_time_is_invalid(odd: Any) -> None:
    assert READER.state(state(statusUpdatedAt=odd), PROCESS) is None
    assert READER.conversation(state(statusUpdatedAt=odd), PROCESS) is None


@pytest.mark.parametrize("odd", [True, 4711.0, "4711", None, [], 10**400, float("nan")])
def test_state_is_none_when_its_pid_is_invalid(odd: Any) -> None:
    assert READER.state(state(pid=odd), PROCESS) is None
    assert READER.state(state(pid=odd), Process(1, "boot/123")) is None
    assert READER.conversation(state(pid=odd), PROCESS) is None


@pytest.mark.parametrize(
    "name", ["waitingFor", "sessionId", "procStart", "status", "statusUpdatedAt", "pid", "more"]
)
@pytest.mark.parametrize("depth", [900, 990, 30_000])
def test_state_with_deeply_nested_values_never_raises(name: str, depth: int) -> None:
    raw = state(**{"status": "waiting", name: "HERE"}).replace(b'"HERE"', b"[" * depth + b"]" * depth)
    found, conversation = READER.state(raw, PROCESS), READER.conversation(raw, PROCESS)
    if found is not None and name != "more":
        assert (found.reason, conversation) in (
            ("claude waits: an answer", ID),
            ("claude waits: an answer", None),
        )


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"1", b'"x"', b"null", b"\xff", b"{}", b"[" * 60_000, b"9" * 5_000]
)
def test_state_is_none_when_the_content_is_not_a_state(raw: bytes) -> None:
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
def test_state_file_is_in_the_config_directory_of_claude(environment: dict[str, str], home: str) -> None:
    assert READER.path(environment, 7) == f"{home}/sessions/7.json"
