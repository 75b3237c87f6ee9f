"""What is believed of two sessions of the real Claude Code that went through every state.

The recordings hold what each source said and when, and what was true (`python -m bench states --record DIR` makes
them). They are replayed as they came, and without the sources that are not asked more when another is missing:
without the state file the screen would have been looked at more often, and without the screen nobody tells of the
views that a person opens at the prompt. `python -m bench states` measures those.
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
    said = {name: value for name, value in line.items() if name != "t"}
    return Observation(
        **{**said, "source": Source(said["source"]), "activity": Activity(said["activity"])}, reason=""
    )


def replayed(path: Path, off: tuple[Source, ...] = ()) -> Iterator[tuple[float, str, str]]:
    """(seconds since the beginning, what is true, what is believed), ten times a second, away from changes."""
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
        ledger.seen(Source.STATE_FILE, now)
        verdict = ledger.verdict(now)
        near = any(abs(now - at) < AROUND_S for at, _ in changes[1:])
        if true in STATES.values() and verdict is not None and not near:
            yield now - begin, true, STATES[verdict.observation.activity]


def test_there_is_something_to_replay() -> None:
    seen = {line["true"] for path in RECORDINGS for line in lines(path) if "true" in line}
    assert seen == {"starting", "running", "waiting_input", "idle", "ended"}


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
@pytest.mark.parametrize("off", [None, Source.HOOK, Source.TRANSCRIPT, Source.TITLE], ids=str)
def test_what_is_believed_is_true(path: Path, off: Source | None) -> None:
    samples = list(replayed(path, () if off is None else (off,)))
    wrong = [sample for sample in samples if sample[1] != sample[2]]
    assert len(samples) > 50
    assert len(wrong) <= 0.01 * len(samples), wrong


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_one_at_work_is_never_taken_for_idle(path: Path) -> None:
    assert [sample for sample in replayed(path) if sample[1:] == ("running", "idle")] == []
