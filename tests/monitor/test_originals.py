"""A fork is told from its original by the ids of the entries, not by their times."""

import json
from pathlib import Path

import pytest

from sm.monitor.blocks import Original, original_path
from sm.monitor.transcripts import Root
from sm.providers.base import Fork
from sm.providers.claude.transcript import ClaudeTranscriptReader

READER = ClaudeTranscriptReader()


def answer(number: int, **more: object) -> bytes:
    message = {
        "id": f"m{number}",
        "model": "claude-opus-4-8",
        "content": [],
        "usage": {"input_tokens": 1, "output_tokens": 0},
    }
    return json.dumps(
        {"type": "assistant", "timestamp": "2026-01-27T15:10:00Z", "message": message} | more
    ).encode()


def test_lines_are_copied_when_the_original_has_their_entry_or_their_message(tmp_path: Path) -> None:
    of_entry, of_message, own = answer(1, uuid="e1"), answer(2), answer(3, uuid="e3")
    (tmp_path / "old.jsonl").write_bytes(of_entry + b"\n" + of_message + b"\n")
    original = Original(str(tmp_path / "old.jsonl"), Root(str(tmp_path)))
    copied = [answer(1, uuid="e1", sessionId="new"), answer(2, sessionId="new")]
    assert original.own_lines([*copied, own], READER) == [own]


def test_original_is_read_on_after_it_grew(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    path.write_bytes(answer(1) + b"\n")
    original = Original(str(path), Root(str(tmp_path)))
    assert original.own_lines([answer(2)], READER) == [answer(2)]
    with path.open("ab") as file:
        file.write(answer(2) + b"\n")
    assert original.own_lines([answer(1), answer(2)], READER) == []


def test_lines_of_a_fork_whose_original_is_gone_are_unknown(tmp_path: Path) -> None:
    original = Original(str(tmp_path / "old.jsonl"), Root(str(tmp_path)))
    assert original.own_lines([answer(1)], READER) is None


@pytest.mark.parametrize(
    ("path", "original"),
    [
        ("/p/new.jsonl", "/p/old.jsonl"),
        ("/p/new/subagents/agent-a.jsonl", "/p/old/subagents/agent-a.jsonl"),
        ("/p/other.jsonl", None),
    ],
)
def test_original_of_a_file_lies_beside_the_copy(path: str, original: str | None) -> None:
    assert original_path(Fork("old", "new"), path) == original
    assert original_path(None, path) is None
