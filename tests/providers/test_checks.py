"""The kept outcomes of checks, and the program that they belong to."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from sm.errors import ExternalError, NotFound
from sm.providers.checks import (
    CheckedProgram,
    CheckRecord,
    CheckRecords,
    Outcome,
    identify,
    is_older,
    locate,
    version_of,
)

INSTEAD = "plans must be approved at the terminal"


def checked(path: Path, version: str = "1.2.3") -> CheckRecord:
    import hashlib

    status, digest = path.stat(), hashlib.sha256(path.read_bytes()).hexdigest()
    program = CheckedProgram(str(path), version, digest, status.st_size, status.st_mtime_ns)
    outcomes = (
        Outcome("plan", "A plan is carried out.", False, "it waits", 20.5, INSTEAD),
        Outcome("text", "Texts arrive.", True, "4 of 4", 1.0),
    )
    return CheckRecord(program, "2026-11-29T09:00:00+00:00", 21.5, outcomes)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "agent"
    path.write_text("first version")
    path.chmod(0o755)
    return path


@pytest.fixture
def records(tmp_path: Path) -> CheckRecords:
    return CheckRecords(str(tmp_path / "checks"))


def test_outcomes_are_found_again_for_the_same_program(records: CheckRecords, program: Path) -> None:
    assert records.find("claude", str(program)) is None
    record = checked(program)
    records.save("claude", record)
    assert records.find("claude", str(program)) == record
    assert [outcome.name for outcome in record.broken] == ["plan"]
    assert records.find("other", str(program)) is None


def test_outcomes_do_not_hold_for_a_program_that_was_replaced(records: CheckRecords, program: Path) -> None:
    records.save("claude", checked(program))
    program.write_text("other version")  # as many bytes
    os.utime(program, ns=(1, 1))
    assert records.find("claude", str(program)) is None
    later = checked(program, "1.2.4")
    records.save("claude", later)
    assert records.find("claude", str(program)) == later


def test_outcomes_hold_for_the_same_program_at_another_path(records: CheckRecords, program: Path) -> None:
    record = checked(program)
    records.save("claude", record)
    copy = program.with_name("copy")
    copy.write_bytes(program.read_bytes())
    assert records.find("claude", str(copy)) == record


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 99}', '{"format": 1}', "\xff"])
def test_broken_file_of_outcomes_counts_as_missing(
    records: CheckRecords, program: Path, tmp_path: Path, content: str
) -> None:
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "claude-0.json").write_bytes(content.encode("latin-1"))
    assert records.find("claude", str(program)) is None


def test_outcomes_are_private(records: CheckRecords, program: Path, tmp_path: Path) -> None:
    records.save("claude", checked(program))
    directory = tmp_path / "checks"
    assert directory.stat().st_mode & 0o777 == 0o700
    assert [file.stat().st_mode & 0o777 for file in directory.iterdir()] == [0o600] * 2


def test_state_directory_that_a_check_makes_is_private(program: Path, tmp_path: Path) -> None:
    state = tmp_path / "new" / "state"
    CheckRecords(str(state / "checks")).save("claude", checked(program))
    assert state.stat().st_mode & 0o777 == 0o700


def test_program_is_found_by_name_and_without_links(program: Path, tmp_path: Path) -> None:
    link = tmp_path / "bin" / "agent"
    link.parent.mkdir()
    link.symlink_to(program)
    assert locate("agent", str(link.parent)) == str(program)
    with pytest.raises(NotFound, match="no program nothing"):
        locate("nothing", str(link.parent))


@pytest.mark.processes
def test_program_whose_version_hangs_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sm.providers.checks._VERSION_S", 0.2)
    fifo, program = tmp_path / "fifo", tmp_path / "claude"
    os.mkfifo(fifo)
    program.write_text(f"#!/bin/sh\nsleep 1000 > {fifo} &\nsleep 1000\n")
    program.chmod(0o755)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(ExternalError, match="--version did not answer within"):
            version_of(str(program))
        os.set_blocking(reader, True)
        assert os.read(reader, 1) == b""  # the kernel closes it with the last writer
    finally:
        os.close(reader)


@pytest.mark.processes
@pytest.mark.parametrize(
    ("script", "words"),
    [("echo the disk is upside down >&2; exit 3", "the disk is upside down"), ("exit 0", "nothing")],
)
def test_program_that_does_not_start_is_told_with_its_words(tmp_path: Path, script: str, words: str) -> None:
    program = tmp_path / "claude"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    with pytest.raises(ExternalError, match=f"prints no version but: {words}"):
        identify(str(program))


@pytest.mark.parametrize(
    ("version", "is_old"), [("1.9.9", True), ("2.0.99", True), ("2.1.0", False), ("10.0.0", False)]
)
def test_older_versions_are_told_by_number(version: str, is_old: bool) -> None:
    assert is_older(version, (2, 1)) is is_old


def test_script_has_the_newest_outcomes_of_its_version(records: CheckRecords, program: Path) -> None:
    old, new = checked(program, "2.1.332"), replace(checked(program, "2.1.332"), checked_at="2026-11-30")
    records.save("claude", replace(old, program=replace(old.program, sha256="0" * 64)))
    records.save("claude", new)
    script = program.with_name("claude")
    script.write_text(f"#!/bin/sh\nexec {program}\n")
    assert records.find("claude", str(script)) is None
    assert records.find("claude", str(script), "2.1.331") is None
    assert records.find("claude", str(script), "2.1.332") == new
    script.write_text("another binary")
    assert records.find("claude", str(script), "2.1.332") is None
