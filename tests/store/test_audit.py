"""The audit log: what a line holds, who may read it, how much it grows, and what a full disk does to it."""

import errno
import json
import logging
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from sm.store.audit import ALLOWED, REFUSED, Audit
from tests.samples import AT


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def made(path: Path, most_bytes: int = 1_000_000) -> Audit:
    return Audit(str(path), lambda: AT, most_bytes=most_bytes)


def test_a_decision_is_one_line_that_is_there_at_once(path: Path) -> None:
    audit = made(path)
    audit.record("session:1a2b3c4d", "kill", "aaaa1111", REFUSED, "to it: team")
    audit.record("operator", "stop_daemon", None, ALLOWED, None)
    assert lines(path) == [
        {
            "time": AT,
            "who": "session:1a2b3c4d",
            "what": "kill",
            "target": "aaaa1111",
            "decision": "refused",
            "reason": "to it: team",
        },
        {
            "time": AT,
            "who": "operator",
            "what": "stop_daemon",
            "target": None,
            "decision": "allowed",
            "reason": None,
        },
    ]
    audit.close()


def test_it_is_for_its_owner_alone_whatever_the_umask_and_what_lay_there(path: Path) -> None:
    before = os.umask(0)
    try:
        path.touch(mode=0o666)
        audit = made(path)
        audit.record("operator", "adopt", "%5", ALLOWED, None)
        audit.close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_in_its_place_is_not_followed(path: Path, tmp_path: Path) -> None:
    path.symlink_to(tmp_path / "elsewhere")
    made(path).record("operator", "adopt", None, ALLOWED, None)
    assert not (tmp_path / "elsewhere").exists()


def test_what_a_caller_wrote_makes_no_second_line_and_no_long_one(path: Path) -> None:
    audit = made(path)
    word = 'x"\n{"who": "operator"}\x1b[2J\u2028\ud800' + "y" * 100_000
    audit.record("session:1a2b3c4d", "see", word, REFUSED, word)
    audit.close()
    (line,) = path.read_bytes().splitlines()
    assert len(line) < 1_000
    found = json.loads(line)
    assert (len(found["target"]), len(found["reason"])) == (80, 200)
    assert not set(found["target"] + found["reason"]) & set("\n\x1b\u2028\ud800")


def test_it_is_rotated_by_size_and_three_old_ones_are_kept(path: Path) -> None:
    audit = made(path, most_bytes=300)
    for number in range(20):
        audit.record("operator", "kill", f"{number:08}", ALLOWED, None)
    audit.close()
    files = sorted(each.name for each in path.parent.iterdir())
    assert files == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2", "audit.jsonl.3"]
    assert all(each.stat().st_size <= 300 for each in path.parent.iterdir())
    assert all(stat.S_IMODE(each.stat().st_mode) == 0o600 for each in path.parent.iterdir())
    kept = [line["target"] for name in reversed(files) for line in lines(path.parent / name)]
    assert kept == [f"{number:08}" for number in range(20)][-len(kept) :]


def test_another_daemon_goes_on_in_the_same_file(path: Path) -> None:
    for number in range(2):
        audit = made(path)
        audit.record("operator", "kill", str(number), ALLOWED, None)
        audit.close()
    assert [line["target"] for line in lines(path)] == ["0", "1"]


def test_a_file_that_somebody_took_away_is_made_anew(path: Path) -> None:
    audit = made(path)
    audit.record("operator", "kill", "before", ALLOWED, None)
    path.unlink()
    audit.record("operator", "kill", "after", ALLOWED, None)
    audit.close()
    assert [line["target"] for line in lines(path)] == ["after"]


def test_a_full_disk_costs_lines_and_is_told_once(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    audit, real = made(path), os.write
    audit.record("operator", "kill", "before", ALLOWED, None)

    def full(descriptor: int, data: bytes) -> int:
        return real(descriptor, data[:10])

    with caplog.at_level(logging.WARNING), monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        for _ in range(5):
            audit.record("operator", "kill", "lost", ALLOWED, None)
    assert [record.getMessage() for record in caplog.records] == [
        f"could not write to the audit log: {os.strerror(errno.ENOSPC)}"
    ]
    audit.record("operator", "kill", "after", ALLOWED, None)
    assert [line["target"] for line in lines(path)] == ["before", "after"]
    audit.close()


def test_a_directory_that_is_gone_costs_lines_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    audit = made(tmp_path / "gone" / "audit.jsonl")
    audit.record("operator", "kill", "lost", ALLOWED, None)
    audit.record("operator", "kill", "lost", ALLOWED, None)
    assert len(caplog.records) == 1
    audit.close()
