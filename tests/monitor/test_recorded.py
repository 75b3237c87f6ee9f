"""Verdicts about two recorded sessions of the real Claude Code that went through every state.

A recording has the observations of each source and the true states, with times (`python -m bench states --record DIR`
writes them). It is replayed with all sources and without one of them. The state file and the screen are never left
out: without the state file the screen would be read more often, and only the screen shows the views that a person
opens at the prompt. `python -m bench states` measures those cases.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sm.core.observation import Activity, Observation, Source
from sm.monitor.evidence import Ledger

RECORDINGS = sorted(Path("tests/data/claude-sessions").glob("*.jsonl"))
STATES = {Activity.BUSY: "running", Activity.BLOCKED: "waiting_input", Activity.IDLE: "idle"}
AROUND_S = 0.5
EVERY_S = 0.1


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def observation(line: Mapping[str, Any]) -> Observation:
    fields = {name: value for name, value in line.items() if name != "t"}
    return Observation(
        **{**fields, "source": Source(fields["source"]), "activity": Activity(fields["activity"])}, reason=""
    )


def replay(path: Path, off: tuple[Source, ...] = ()) -> Iterator[tuple[float, str, str]]:
    """Yield (seconds since the start, true state, verdict) ten times a second, except close to changes of state."""
    todo = lines(path)
    begin, end = todo[0]["t"], todo[-1]["t"]
    changes = [(line["t"], line["true"]) for line in todo if "true" in line]
    ledger = Ledger(off)
    true = ""
    for step in range(int((end - begin) / EVERY_S)):
        now = begin + step * EVERY_S
        while todo and todo[0]["t"] <= now:
            line = todo.pop(0)
            if "true" in line:
                true = line["true"]
            else:
                ledger.add(observation(line), line["t"])
        ledger.mark_read(Source.STATE_FILE, now)
        verdict = ledger.verdict(now)
        near = any(abs(now - at) < AROUND_S for at, _ in changes[1:])
        if true in STATES.values() and verdict is not None and not near:
            yield now - begin, true, STATES[verdict.observation.activity]


def test_recordings_contain_every_state() -> None:
    seen = {line["true"] for path in RECORDINGS for line in lines(path) if "true" in line}
    assert seen == {"starting", "running", "waiting_input", "idle", "ended"}


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
@pytest.mark.parametrize("off", [None, Source.HOOK, Source.TRANSCRIPT, Source.TITLE], ids=str)
def test_verdict_is_right_for_99_percent_of_a_recording(path: Path, off: Source | None) -> None:
    samples = list(replay(path, () if off is None else (off,)))
    wrong = [sample for sample in samples if sample[1] != sample[2]]
    assert len(samples) > 50
    assert len(wrong) <= 0.01 * len(samples), wrong


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_verdict_is_never_idle_while_the_recorded_agent_works(path: Path) -> None:
    assert [sample for sample in replay(path) if sample[1:] == ("running", "idle")] == []
