"""What the files of Claude Code say to its reader, however they look."""

import json
from typing import Any

import pytest

from sm.core.models import Process
from sm.core.observation import Activity
from sm.providers.base import Heard
from sm.providers.claude.reader import ClaudeReader

READER = ClaudeReader({})
PROCESS = Process(4711, "boot/123")
AT_MS = 1_790_000_000_123
ID = "5e55aaaa-0000-4000-8000-000000000001"


def state(**more: Any) -> bytes:
    whole = {"pid": 4711, "sessionId": ID, "status": "idle", "statusUpdatedAt": AT_MS, "procStart": "123"}
    return json.dumps(whole | more).encode()


def test_what_claude_publishes_is_read() -> None:
    found = READER.state(state(), PROCESS)
    assert found is not None
    said, conversation = found
    assert (said.activity, said.at, conversation) == (Activity.IDLE, AT_MS / 1000, ID)
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


@pytest.mark.parametrize("odd", [True, 4711.0, "4711", None, [], 10**400, float("nan")])
def test_a_state_of_no_process_says_nothing(odd: Any) -> None:
    assert READER.state(state(pid=odd), PROCESS) is None
    assert READER.state(state(pid=odd), Process(1, "boot/123")) is None


@pytest.mark.parametrize(
    "name", ["waitingFor", "sessionId", "procStart", "status", "statusUpdatedAt", "pid", "more"]
)
@pytest.mark.parametrize("depth", [900, 990, 30_000])
def test_a_state_with_a_tower_of_brackets_raises_nothing(name: str, depth: int) -> None:
    raw = state(**{"status": "waiting", name: "HERE"}).replace(b'"HERE"', b"[" * depth + b"]" * depth)
    found = READER.state(raw, PROCESS)
    if found is not None and name != "more":
        assert (found[0].reason, found[1]) in (("it waits: an answer", ID), ("it waits: an answer", ""))


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"1", b'"x"', b"null", b"\xff", b"{}", b"[" * 60_000, b"9" * 5_000]
)
def test_what_is_no_state_says_nothing(raw: bytes) -> None:
    assert READER.state(raw, PROCESS) is None


@pytest.mark.parametrize(
    ("environment", "home"),
    [
        ({"HOME": "/home/me"}, "/home/me/.claude"),
        ({"HOME": "/home/me", "CLAUDE_CONFIG_DIR": ""}, "/home/me/.claude"),
        ({"HOME": "/home/me", "CLAUDE_CONFIG_DIR": "/cfg"}, "/cfg"),
    ],
)
def test_where_claude_keeps_what(environment: dict[str, str], home: str) -> None:
    assert READER.state_file(environment, 7) == f"{home}/sessions/7.json"
    assert READER.home(environment) == f"{home}/projects"
    assert READER.transcript(environment, "/w/a_b.c", ID) == f"{home}/projects/-w-a-b-c/{ID}.jsonl"


# ------------------------------------------------------------------------------------------------- heard, and done

AT, AT_S = "2026-11-21T16:22:32.123Z", 1_795_278_152.123


def line(type: str, **more: Any) -> bytes:
    return json.dumps({"type": type, "timestamp": AT} | more).encode()


def queue(operation: str, text: str) -> bytes:
    return line("queue-operation", operation=operation, content=text)


def result(id: str, **more: Any) -> bytes:
    block = {"type": "tool_result", "tool_use_id": id, "content": "x"} | more.pop("block", {})
    return line("user", message={"content": [block]}, **more)


ENDED = line("system", subtype="turn_duration", durationMs=7)
FAILED = line("assistant", isApiErrorMessage=True, error="server_error", message={"content": "API Error"})
INTERRUPTED = line("user", message={"content": "[Request interrupted by user]"})


def test_what_was_given_to_the_agent_is_heard() -> None:
    ours = "[sm] from a, message 7\nhi"
    lines = [
        queue("enqueue", ours),
        queue("popAll", ours),
        queue("enqueue", "a person's own words"),
        line("attachment", attachment={"type": "queued_command", "prompt": ours}),
        line("user", message={"content": ours}, promptSource="typed"),
    ]
    read = READER.lines(lines, sidechain=False, todo=())
    assert read.heard == (
        Heard(ours, AT_S, queued=True),
        Heard(ours, AT_S, withdrawn=True),
        Heard(ours, AT_S),
        Heard(ours, AT_S),
    )
    assert READER.lines(lines, sidechain=True, todo=()).heard == ()
    assert (
        READER.lines([queue("enqueue", ours).replace(AT.encode(), b"")], sidechain=False, todo=()).heard == ()
    )


def test_what_a_hook_of_its_user_refused_is_heard() -> None:
    ours = "[sm] from a, message 7\nhi"
    refused = f"UserPromptSubmit operation blocked by hook:\nno\n\nOriginal prompt: {ours}"
    lines = [
        line("system", subtype="informational", content=words, preventContinuation=True)
        for words in (
            refused,
            refused.partition("\n\n")[0],
            refused.replace("[sm]", "my"),
            "Operation stopped by hook: wait",
        )
    ]
    assert READER.lines(lines, sidechain=False, todo=()).heard == (
        Heard(ours, AT_S, refused="no"),
        Heard("", AT_S, refused="no"),
        Heard("", AT_S, refused="wait", kept=True),
    )


@pytest.mark.parametrize("sidechain", [False, True])
def test_uses_of_tools_end_with_their_results(sidechain: bool) -> None:
    refused = {"block": {"is_error": True}, "toolUseResult": "User rejected tool use"}
    lines = [result("a"), result("b", block={"is_error": True}), result("c", **refused)]
    assert READER.lines(lines, sidechain=sidechain, todo=()).tools_ended == {"a": True, "b": True, "c": False}


@pytest.mark.parametrize(
    ("lines", "finished"),
    [
        ([ENDED], AT_S),
        ([result("a"), ENDED], AT_S),
        ([FAILED, ENDED, ENDED], AT_S),
        ([FAILED, ENDED], None),
        ([ENDED, FAILED], None),
        ([INTERRUPTED], None),
        ([result("a")], None),
    ],
)
def test_a_turn_that_failed_or_was_interrupted_is_not_finished(
    lines: list[bytes], finished: float | None
) -> None:
    assert READER.lines(lines, sidechain=False, todo=()).turn_finished == finished
    assert READER.lines(lines, sidechain=True, todo=()).turn_finished is None
