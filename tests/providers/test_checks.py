"""The kept outcomes of checks, and the program that they belong to."""

import os
from pathlib import Path

import pytest

from sm.errors import NotFound
from sm.providers.checks import CheckedProgram, CheckRecord, CheckRecords, Outcome, locate

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
    (file,) = (tmp_path / "checks").iterdir()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


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
