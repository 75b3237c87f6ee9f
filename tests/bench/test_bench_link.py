"""How `python -m bench link` scores recordings, also those that are wrong or broken."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.link import main
from tests.codex_recordings import FOLDER, NAMES


def run(capsys: pytest.CaptureFixture[str], directory: Path) -> tuple[int, dict[str, Any]]:
    code = main(["--dir", str(directory), "--json"])
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert list(result) == ["n", "status_accuracy", "delivered", "answered_by", "errors"]
    return code, result


@pytest.fixture
def changed(tmp_path: Path) -> Callable[..., Path]:
    """A directory with one recording, each line of which was passed to a function that changes or drops it."""

    def write(name: str, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> Path:
        texts = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        lines = [changed for text in texts if (changed := change(json.loads(text))) is not None]
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        return tmp_path

    return write


def test_link_is_right_about_all_recordings(capsys: pytest.CaptureFixture[str]) -> None:
    code, result = run(capsys, FOLDER)
    assert code == 0
    assert result == {
        "n": len(NAMES),
        "status_accuracy": 1.0,
        "delivered": 1.0,
        "answered_by": 1.0,
        "errors": [],
    }


def test_text_output_has_the_samples_of_each_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--dir", str(FOLDER)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["recordings", "status", "from", "delivered", "answered"]


def test_status_is_wrong_when_the_link_does_not_hear_the_end(
    capsys: pytest.CaptureFixture[str], changed: Callable[..., Path]
) -> None:
    def without_end(line: dict[str, Any]) -> dict[str, Any] | None:
        is_end = line["msg"].get("method") in ("turn/completed", "thread/status/changed")
        return None if is_end and line["t"] > 1 else line

    code, result = run(capsys, changed("tool_long_silent", without_end))
    assert code == 1
    (error,) = result["errors"]
    assert (error["truth"], error["got"]) == (["idle"], "running")
    assert 0.9 < result["status_accuracy"] < 1.0


def test_status_is_wrong_when_the_link_is_idle_during_a_tool(
    capsys: pytest.CaptureFixture[str], changed: Callable[..., Path]
) -> None:
    def early_idle(line: dict[str, Any]) -> dict[str, Any]:
        params = line["msg"].get("params", {})
        if line["msg"].get("method") == "item/started" and params["item"]["type"] == "commandExecution":
            params = {"threadId": params["threadId"], "status": {"type": "idle"}}
            return {**line, "msg": {"method": "thread/status/changed", "params": params}}
        return line

    _, result = run(capsys, changed("tool_long_silent", early_idle))
    assert result["status_accuracy"] < 0.3


def test_status_is_wrong_when_the_link_misses_a_request(
    capsys: pytest.CaptureFixture[str], changed: Callable[..., Path]
) -> None:
    def without_request(line: dict[str, Any]) -> dict[str, Any] | None:
        flags = line["msg"].get("params", {}).get("status", {}).get("activeFlags")
        return None if flags or "requestApproval" in line["msg"].get("method", "") else line

    _, result = run(capsys, changed("approval_accepted", without_request))
    assert result["status_accuracy"] < 0.6
    assert result["answered_by"] == 0.0


def test_false_truths_are_errors(capsys: pytest.CaptureFixture[str], changed: Callable[..., Path]) -> None:
    def other_truth(line: dict[str, Any]) -> dict[str, Any]:
        if line["dir"] == "truth" and "delivered" in line["msg"]:
            return {**line, "msg": {"status": "running", "delivered": ["sm-1"], "answered_by": "terminal"}}
        return line

    _, result = run(capsys, changed("message_while_approval", other_truth))
    assert (result["delivered"], result["answered_by"]) == (0.0, 0.0)
    assert {error["what"] for error in result["errors"]} == {"status", "delivered", "answered_by"}


def test_recording_without_truths_has_no_shares(
    capsys: pytest.CaptureFixture[str], changed: Callable[..., Path]
) -> None:
    directory = changed("text_turn", lambda line: None if line["dir"] == "truth" else line)
    code, result = run(capsys, directory)
    shares = {"status_accuracy": None, "delivered": None, "answered_by": None}
    assert (code, result) == (0, {"n": 1, **shares, "errors": []})


def test_broken_files_are_errors_and_the_others_are_scored(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    whole = (FOLDER / "text_turn.jsonl").read_bytes()
    (tmp_path / "a.jsonl").write_bytes(whole)
    (tmp_path / "b-empty.jsonl").write_bytes(b"")
    (tmp_path / "c-binary.jsonl").write_bytes(bytes(range(256)) * 10)
    (tmp_path / "d-cut.jsonl").write_bytes(whole[:-20])
    (tmp_path / "e-deep.jsonl").write_bytes(b"[" * 100_000 + b"\n" + whole)
    odd = [1, {"t": "x"}, {"t": 1, "dir": "up", "msg": {}}, {"t": 1e300, "dir": "in", "msg": {}}]
    odd += [{"t": 0, "dir": "truth", "msg": {"status": 3, "delivered": [[]], "answered_by": {}}}]
    odd += [{"t": 0, "dir": "in", "msg": {"method": ["x"], "id": []}}, {"t": True, "dir": "in", "msg": {}}]
    odd += [{"t": 0, "dir": "in", "msg": {"emittedAtMs": 10**400}}, {"t": -1, "dir": "in", "msg": {}}]
    (tmp_path / "f-odd.jsonl").write_text("\n".join(json.dumps(line) for line in odd))
    (tmp_path / "g-directory.jsonl").mkdir()
    code, result = run(capsys, tmp_path)
    assert code == 1
    assert result["n"] == 4
    assert {e["recording"]: e["got"] for e in result["errors"] if e["what"] == "file"} == {
        "b-empty": "is empty",
        "c-binary": "broken lines: 11",
        "d-cut": "broken lines: 1",
        "e-deep": "broken lines: 1",
        "f-odd": "broken lines: 6",
        "g-directory": "Is a directory",
    }
    assert result["status_accuracy"] == 1.0


def test_directory_without_a_recording_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--dir", str(tmp_path)])
    assert caught.value.code == 2
    assert "holds no recording" in capsys.readouterr().err
