"""Reports of failed starts, which agents can replace by anything."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sm.sandboxes.docker.start_report import read_report, remove_report
from sm.sandboxes.launch import StartFailure

REPORT = b"77\x00127\0/bin\0agent\0/work\0"


@pytest.fixture
def report(tmp_path: Path) -> Path:
    (tmp_path / "home" / ".sm").mkdir(parents=True)
    return tmp_path / "home" / ".sm" / "1a2b3c4d.failed"


def read(report: Path) -> StartFailure | None:
    return read_report(str(report.parents[1]), "1a2b3c4d", "77")


def test_report_names_the_program_of_the_start(report: Path) -> None:
    assert read(report) is None
    report.write_bytes(REPORT)
    assert read(report) == StartFailure("77", 127, b"/bin", b"agent", b"/work")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 10,
        b"77\x00127\0/bin\0agent\0/work",
        b"77\0-1\0/bin\0agent\0/work\0",
        b"77\x001271\0/bin\0agent\0/work\0",
        b"78\x00127\0/bin\0agent\0/work\0",
        b"7x\x00127\0/bin\0agent\0/work\0",
        "\N{SUPERSCRIPT TWO}\x00127\0/bin\0agent\0/work\0".encode(),
        b"77\x00127\0" + b"x" * (1 << 20) + b"\0agent\0/work\0",
    ],
)
def test_report_is_ignored_when_its_content_is_invalid(report: Path, content: bytes) -> None:
    report.write_bytes(content)
    assert read(report) is None


def link_to_a_file(report: Path) -> None:
    (report.parents[2] / "elsewhere").write_bytes(REPORT)
    report.symlink_to(report.parents[2] / "elsewhere")


def link_to_a_directory(report: Path) -> None:
    (report.parents[2] / "elsewhere").mkdir()
    (report.parents[2] / "elsewhere" / report.name).write_bytes(REPORT)
    report.parent.rmdir()
    report.parent.symlink_to(report.parents[2] / "elsewhere")


def pipe(report: Path) -> None:
    os.mkfifo(report)


def directory(report: Path) -> None:
    report.mkdir()


@pytest.mark.parametrize("plant", [link_to_a_file, link_to_a_directory, pipe, directory])
def test_report_is_ignored_when_it_is_no_file_of_its_directory(
    report: Path, plant: Callable[[Path], None]
) -> None:
    plant(report)
    assert read(report) is None


@pytest.mark.parametrize("plant", [link_to_a_file, link_to_a_directory, pipe, directory])
def test_remove_report_removes_nothing_outside(report: Path, plant: Callable[[Path], None]) -> None:
    plant(report)
    elsewhere = report.parents[2] / "elsewhere"
    before = elsewhere.exists()
    for _ in range(2):
        remove_report(str(report.parents[1]), "1a2b3c4d")
    assert elsewhere.exists() == before
    assert not elsewhere.is_dir() or list(elsewhere.iterdir())
