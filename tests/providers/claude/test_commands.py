"""Messages that are slash commands of claude, and the reports with which claude confirms them."""

import json

import pytest

from sm.errors import InvalidText
from sm.providers.base import InputCommand
from sm.providers.claude.commands import read_command
from sm.providers.claude.hooks import read_hook
from sm.providers.claude.transcript import ClaudeTranscriptReader
from sm.providers.readers import AcceptedInput

AT = "2026-11-25T09:54:14.167Z"
AT_S = 1795600454.167


@pytest.mark.parametrize(
    ("text", "typed", "by_parent"),
    [
        ("/compact", "/compact", True),
        ("/compact\n", "/compact", True),
        ("  /compact  keep the numbers ", "/compact keep the numbers", True),
        ("/clear", "/clear", False),
        ("/context", "/context", False),
    ],
)
def test_command_is_typed_without_blanks_around_it(text: str, typed: str, by_parent: bool) -> None:
    assert read_command(text) == InputCommand(typed, by_parent)


@pytest.mark.parametrize(
    "text",
    ["", "/", "compact", "/compacted", "/clear it", "/exit", "/permissions", "/model opus", "/cost", "/etc/passwd",
     "please /compact", "/Compact", "!ls", "/clear\n/exit", "/context\nx", "/clear/../exit"],
)  # fmt: skip
def test_any_other_text_is_no_command(text: str) -> None:
    assert read_command(text) is None


@pytest.mark.parametrize("instructions", ["one\ntwo", "see [Pasted text #1 +9 lines]", "x" * 701])
def test_instructions_that_cannot_be_typed_are_refused(instructions: str) -> None:
    with pytest.raises(InvalidText, match="one line of at most 700"):
        read_command(f"/compact {instructions}")


def accepted(line: dict[str, object]) -> tuple[AcceptedInput, ...]:
    text = json.dumps({"timestamp": AT} | line).encode()
    return ClaudeTranscriptReader().delta([text], sidechain=False, todo=()).accepted


def command_line(name: str, arguments: str) -> str:
    return f"<command-name>{name}</command-name>\n  <command-args>{arguments}</command-args>"


def test_transcript_reports_a_command_that_claude_has_carried_out() -> None:
    content = command_line("/compact", "keep the numbers")
    (whole,) = accepted({"type": "user", "message": {"role": "user", "content": content}})
    assert (whole.text, whole.command, whole.queued) == ("/compact keep the numbers", True, False)
    (local,) = accepted(
        {"type": "system", "subtype": "local_command", "content": command_line("/context", "")}
    )
    assert (local.text, local.command) == ("/context", True)


def test_transcript_reports_a_command_in_the_queue() -> None:
    (queued,) = accepted({"type": "queue-operation", "operation": "enqueue", "content": "/compact"})
    assert (queued.text, queued.command, queued.queued) == ("/compact", True, True)


def test_prompt_that_begins_like_a_command_is_no_command() -> None:
    prompt = {"type": "user", "message": {"role": "user", "content": "/etc/passwd is a file"}}
    assert [a.command for a in accepted({"parentUuid": "p", **prompt})] == [False]


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ({"trigger": "manual", "custom_instructions": None}, "/compact"),
        ({"trigger": "manual", "custom_instructions": "be short"}, "/compact be short"),
        ({"trigger": "auto", "custom_instructions": None}, None),
    ],
)
def test_hook_of_a_compaction_confirms_the_command(payload: dict[str, object], text: str | None) -> None:
    event = read_hook({"hook_event_name": "PreCompact"} | payload, AT_S, expects_turn=False)
    if text is None:
        assert event.accepted is None
    else:
        assert event.accepted == AcceptedInput(text, AT_S, hook="PreCompact", command=True)
