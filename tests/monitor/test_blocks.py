"""Transcripts are reduced in a thread to little work for the event loop."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.core.observation import Activity, Observation, Source
from sm.monitor.blocks import BLOCK_MAX_BYTES, condense, read_block
from sm.monitor.evidence import Ledger
from sm.monitor.transcripts import Root
from sm.providers.claude.transcript import ClaudeTranscriptReader

NOW = 100.0


def observations(earliest: int, latest: int) -> st.SearchStrategy[list[Observation]]:
    """Lists of observations between these times, in any order."""
    one = st.builds(
        lambda at, final: Observation(
            Source.TRANSCRIPT, Activity.IDLE if final else Activity.BUSY, at, f"at {at}", final=final
        ),
        st.integers(earliest, latest).map(float),
        st.booleans(),
    )
    return st.lists(one, max_size=12)


def ledger(*parts: tuple[Observation, ...] | list[Observation]) -> Ledger:
    filled = Ledger()
    for part in parts:
        for observation in part:
            filled.add(observation, NOW)
    return filled


# No line of a block is older than the lines that were read before: an agent appends to its transcript.
@given(observations(1, 4), observations(4, 12), observations(4, 12))
def test_condensed_observations_have_the_same_effect_on_a_ledger(
    known: list[Observation], first: list[Observation], second: list[Observation]
) -> None:
    condensed = condense((*condense(first), *second))
    assert len(condensed) <= 4
    assert vars(ledger(known, condensed)) == vars(ledger(known, first, second))


def test_block_has_few_observations_and_only_the_usage_of_the_session(tmp_path: Path) -> None:
    lines = [
        {
            "type": "assistant",
            "timestamp": f"2026-01-27T15:{10 + n // 60}:{n % 60:02}Z",
            "message": {
                "id": f"m{n}",
                "model": "claude-opus-4-8",
                "content": [{"type": "tool_use", "id": f"t{n}", "name": "Bash", "input": {}}],
                "usage": {"input_tokens": 1, "output_tokens": 0},
            },
        }
        for n in range(1000)
    ]
    path = tmp_path / "one.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert path.stat().st_size < BLOCK_MAX_BYTES
    block = read_block(
        str(path),
        None,
        ClaudeTranscriptReader(),
        (),
        below=Root(str(tmp_path)),
        sidechain=False,
        since="2026-01-27T15:20:00Z",
    )
    assert [o.reason for o in block.delta.observations] == ["claude called Bash"] * 2
    assert [u.message_id for u in block.delta.usage] == [f"m{n}" for n in range(600, 1000)]
    assert block.newest_tool is not None and block.newest_tool.id == "t999"
    assert block.model == "claude-opus-4-8"


@pytest.mark.parametrize("goes_on", [True, False])
def test_block_does_not_end_in_a_failure_that_is_over(tmp_path: Path, goes_on: bool) -> None:
    at = "2026-01-27T15:20:00Z"
    filler = json.dumps({"type": "mode", "timestamp": at, "text": "x" * 1000}) + "\n"
    error = {"content": [{"type": "text", "text": "Prompt is too long"}]}
    failure = {"type": "assistant", "timestamp": at, "isApiErrorMessage": True, "error": "invalid_request"}
    prompt = {"type": "user", "timestamp": at, "message": {"role": "user", "content": "go on"}}
    lines = [json.dumps(failure | {"message": error}) + "\n", filler * (BLOCK_MAX_BYTES // 1000)]
    path = tmp_path / "one.jsonl"
    path.write_text("".join([*lines, json.dumps(prompt) + "\n"] if goes_on else lines))
    block = read_block(
        str(path), None, ClaudeTranscriptReader(), (), below=Root(str(tmp_path)), sidechain=False, since=""
    )
    assert (block.delta.observations[-1].fault is None) is goes_on
