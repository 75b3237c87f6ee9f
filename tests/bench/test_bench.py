"""Benchmarks run, clean up and yield the documented rows. Speed itself is not tested."""

import json
import os
import tempfile

import pytest

from bench.__main__ import GROUPS
from bench.row import Effort, Judged, Row, table
from tests.hard_limit import SHARED_S

TINY = Effort(
    pairs=1,
    stored=3,
    sessions=2,
    restored=2,
    restarts=1,
    watch_s=0.2,
    looks_s=0.2,
    rested_s=0.0,
    live=(1, 2),
    ended=(2,),
    history=3,
    transcript_mb=1,
    containers=1,
    sandboxed=2,
    pumps=2,
    changed_lines=200,
    looks=1,
    files=200,
    trees=1,
)


_SHORT = frozenset(["commands", "listing", "restart"])
"""Each other benchmark takes up to two minutes: only `./check --full` runs it."""


def _marks(name: str) -> list[pytest.MarkDecorator]:
    # A short one starts a dozen daemons, each a test of its own elsewhere.
    found = [pytest.mark.timeout(SHARED_S) if name in _SHORT else pytest.mark.full]
    if name in ("changes", "web"):
        found.append(pytest.mark.browser)
    if name == "sandbox":
        found.append(pytest.mark.xdist_group("containers"))
    return found


@pytest.mark.parametrize("name", [pytest.param(name, marks=_marks(name)) for name in GROUPS])
@pytest.mark.processes
def test_benchmark_yields_documented_rows_and_removes_its_files(
    name: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if name == "sandbox":
        monkeypatch.setenv("SM_TEST_ENGINE", request.getfixturevalue("engine"))
        request.getfixturevalue("sandbox_image")
    with tempfile.TemporaryDirectory(prefix="sm-b-", dir="/tmp") as homes:  # a socket's path must be short
        monkeypatch.setattr(tempfile, "tempdir", homes)
        rows = list(GROUPS[name](TINY))
        assert rows
        assert os.listdir(homes) == []
    for row in rows:
        shown = json.loads(json.dumps(row.as_json()))
        assert set(shown) == {
            *("what", "unit", "ours", "floor", "floor_is", "ratio"),
            *("judged", "value", "gate", "aim", "holds_gate", "holds_aim"),
        }
    assert len(table(rows)) == len(rows) + 1


@pytest.mark.parametrize(
    ("judged", "value", "holds"),
    [(Judged.OURS, 30, False), (Judged.RATIO, 3, True), (Judged.ABOVE, 20, False)],
)
def test_row_compares_the_value_that_its_bounds_apply_to(judged: Judged, value: float, holds: bool) -> None:
    row = Row("what", "ms", 30, 10, "the floor", 3, judged, gate=10, aim=1)
    assert (row.value, row.holds(row.gate), row.holds(row.aim)) == (value, holds, False)
