"""`python -m bench screens`: scores of correctly and wrongly classified captures."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import main

CAPTURES = Path(__file__).parents[1] / "data/screens/claude"


def put(directory: Path, name: str, state: str, capture: str) -> None:
    (directory / f"{name}.txt").write_text(
        (CAPTURES / f"{capture}.txt").read_text(encoding="utf-8"), encoding="utf-8"
    )
    (directory / f"{name}.json").write_text(json.dumps({"state": state}), encoding="utf-8")


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Two correctly labelled captures, and an idle capture that is labelled as working."""
    put(tmp_path, "a", "idle", "idle-fresh-01")
    put(tmp_path, "b", "working", "idle-fresh-01")
    put(tmp_path, "c", "question", "ask-one-01")
    (tmp_path / "alone.txt").write_text("no label", encoding="utf-8")
    return tmp_path


@pytest.mark.processes
def test_screens_classifies_every_capture_of_the_tests_correctly() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "screens", "--dir", str(CAPTURES), "--provider", "claude", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    scored = json.loads(done.stdout)
    captures = len(list(CAPTURES.glob("*.txt")))
    assert (done.returncode, scored["n"], scored["accuracy"], scored["errors"]) == (0, captures, 1.0, [])
    assert set(scored["recall"].values()) == set(scored["precision"].values()) == {1.0}
    assert len(scored["recall"]) == 7


def test_screens_prints_scores_and_errors_as_json(mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["screens", "--dir", str(mixed), "--provider", "claude", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "n": 3,
        "accuracy": 2 / 3,
        "precision": {"idle": 0.5, "question": 1.0},
        "recall": {"idle": 1.0, "question": 1.0, "working": 0.0},
        "errors": [{"name": "b", "label": "working", "read": "idle"}],
    }


def test_screens_prints_scores_and_errors_as_a_table(mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["screens", "--dir", str(mixed), "--provider", "claude"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "3 screens, accuracy 0.667"
    assert out[2:] == [
        "label       precision  recall",
        "idle            0.500   1.000",
        "question        1.000   1.000",
        "working             -   0.000",
        "b: working, read as idle",
    ]


@pytest.mark.parametrize(
    "arguments", [["--provider", "claude"], ["--dir", "."], ["--dir", "{empty}", "--provider", "claude"]]
)
def test_screens_refuses_missing_or_wrong_arguments(arguments: list[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["screens", *(argument.format(empty=tmp_path) for argument in arguments)])
    assert refused.value.code == 2


def test_bench_lists_benchmarks_when_name_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["nothing-of-that-name"])
    assert refused.value.code == 2
    assert "known: commands listing" in capsys.readouterr().err
