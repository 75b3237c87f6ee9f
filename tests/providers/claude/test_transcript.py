"""What transcripts of Claude Code mean, and where they lie."""

import json
from typing import Any

import pytest

from sm.providers.claude.transcript import ClaudeTranscriptReader
from sm.providers.readers import AcceptedInput

READER = ClaudeTranscriptReader()
ID = "5e55aaaa-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    ("environment", "home"),
    [
        ({"HOME": "/home/me"}, "/home/me/.claude"),
        ({"HOME": "/home/me", "CLAUDE_CONFIG_DIR": ""}, "/home/me/.claude"),
        ({"HOME": "/home/me", "CLAUDE_CONFIG_DIR": "/cfg"}, "/cfg"),
    ],
)
def test_transcripts_lie_in_the_directory_of_claude(environment: dict[str, str], home: str) -> None:
    assert READER.root(environment) == f"{home}/projects"
    assert READER.path(environment, "/w/a_b.c", ID) == f"{home}/projects/-w-a-b-c/{ID}.jsonl"


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
    read = READER.delta(lines, sidechain=False, todo=())
    assert read.accepted == (
        AcceptedInput(ours, AT_S, queued=True),
        AcceptedInput(ours, AT_S, withdrawn=True),
        AcceptedInput(ours, AT_S),
        AcceptedInput(ours, AT_S),
    )
    assert READER.delta(lines, sidechain=True, todo=()).accepted == ()
    assert (
        READER.delta([queue("enqueue", ours).replace(AT.encode(), b"")], sidechain=False, todo=()).accepted
        == ()
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
    assert READER.delta(lines, sidechain=False, todo=()).accepted == (
        AcceptedInput(ours, AT_S, refused="no"),
        AcceptedInput("", AT_S, refused="no"),
        AcceptedInput("", AT_S, refused="wait", kept=True),
    )


@pytest.mark.parametrize("sidechain", [False, True])
def test_uses_of_tools_end_with_their_results(sidechain: bool) -> None:
    refused = {"block": {"is_error": True}, "toolUseResult": "User rejected tool use"}
    lines = [result("a"), result("b", block={"is_error": True}), result("c", **refused)]
    assert READER.delta(lines, sidechain=sidechain, todo=()).tools_ended == {"a": True, "b": True, "c": False}


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
    assert READER.delta(lines, sidechain=False, todo=()).turn_finished == finished
    assert READER.delta(lines, sidechain=True, todo=()).turn_finished is None
