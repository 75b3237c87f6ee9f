"""The audit log: lines, permissions, rotation and full disks."""

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


def audit_log(path: Path, most_bytes: int = 1_000_000) -> Audit:
    return Audit(str(path), lambda: AT, most_bytes=most_bytes)


def test_record_writes_one_line_immediately(path: Path) -> None:
    audit = audit_log(path)
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


def test_audit_file_is_readable_by_owner_only_whatever_umask_and_old_mode(path: Path) -> None:
    before = os.umask(0)
    try:
        path.touch(mode=0o666)
        audit = audit_log(path)
        audit.record("operator", "adopt", "%5", ALLOWED, None)
        audit.close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_audit_file_is_not_written_through_a_link(path: Path, tmp_path: Path) -> None:
    path.symlink_to(tmp_path / "elsewhere")
    audit_log(path).record("operator", "adopt", None, ALLOWED, None)
    assert not (tmp_path / "elsewhere").exists()


def test_record_shortens_and_escapes_text_of_the_caller(path: Path) -> None:
    audit = audit_log(path)
    text = 'x"\n{"who": "operator"}\x1b[2J\u2028\ud800' + "y" * 100_000
    audit.record("session:1a2b3c4d", "see", text, REFUSED, text)
    audit.close()
    (line,) = path.read_bytes().splitlines()
    assert len(line) < 1_000
    record = json.loads(line)
    assert (len(record["target"]), len(record["reason"])) == (80, 200)
    assert not set(record["target"] + record["reason"]) & set("\n\x1b\u2028\ud800")


def test_audit_file_is_rotated_by_size_and_three_old_files_are_kept(path: Path) -> None:
    audit = audit_log(path, most_bytes=300)
    for number in range(20):
        audit.record("operator", "kill", f"{number:08}", ALLOWED, None)
    audit.close()
    files = sorted(file.name for file in path.parent.iterdir())
    assert files == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2", "audit.jsonl.3"]
    assert all(file.stat().st_size <= 300 for file in path.parent.iterdir())
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in path.parent.iterdir())
    targets = [line["target"] for name in reversed(files) for line in lines(path.parent / name)]
    assert targets == [f"{number:08}" for number in range(20)][-len(targets) :]


def test_audit_appends_to_existing_file_after_a_restart(path: Path) -> None:
    for number in range(2):
        audit = audit_log(path)
        audit.record("operator", "kill", str(number), ALLOWED, None)
        audit.close()
    assert [line["target"] for line in lines(path)] == ["0", "1"]


def test_audit_creates_a_deleted_file_again(path: Path) -> None:
    audit = audit_log(path)
    audit.record("operator", "kill", "before", ALLOWED, None)
    path.unlink()
    audit.record("operator", "kill", "after", ALLOWED, None)
    audit.close()
    assert [line["target"] for line in lines(path)] == ["after"]


def test_audit_drops_lines_and_warns_once_when_disk_is_full(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    audit, real = audit_log(path), os.write
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


def test_audit_drops_lines_and_warns_once_when_directory_is_missing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    audit = audit_log(tmp_path / "gone" / "audit.jsonl")
    audit.record("operator", "kill", "lost", ALLOWED, None)
    audit.record("operator", "kill", "lost", ALLOWED, None)
    assert len(caplog.records) == 1
    audit.close()
