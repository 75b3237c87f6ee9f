"""The reason of a failed command of git, in what git and its programs have said."""

import pytest

from sm.capabilities.worktrees.git.calls import reason_of
from sm.capabilities.worktrees.making.filling import disk_full, is_full

LFS = "git-lfs filter-process: 1: git-lfs: not found"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("", "git exited with code 128"),
        ("fatal: bad object x", "bad object x"),
        ("warning: a\nerror: b: c\nfatal: d", "b: c"),
        ("Updating files:  41%\rfatal: cannot create directory at 'x'", "cannot create directory at 'x'"),
        ("something else", "something else"),
        (
            f"{LFS}\nerror: packet write with format failed\nerror: Could not write client identification\n"
            "error: initialization for subprocess 'git-lfs filter-process' failed\n"
            "fatal: x.bin: smudge filter lfs failed",
            f"x.bin: smudge filter lfs failed ({LFS})",
        ),
        (
            "fatal: the remote end hung up unexpectedly\nwarning: x\nfatal: x.bin: smudge filter lfs failed",
            "x.bin: smudge filter lfs failed",
        ),
        (
            "ssh: connect to host example.org port 22: Connection refused\n"
            "fatal: Could not read from remote repository.\n\n"
            "Please make sure you have the correct access rights\nand the repository exists.",
            "ssh: connect to host example.org port 22: Connection refused",
        ),
        ("fatal: the remote end hung up unexpectedly", "the remote end hung up unexpectedly"),
        (
            "error: Your local changes to the following files would be overwritten by merge:\n\tapi/a.txt\n\tb\n"
            "Please commit your changes or stash them before you merge.\nAborting",
            "Your local changes to the following files would be overwritten by merge: api/a.txt, b",
        ),
    ],
)
def test_reason_is_the_line_that_says_something(said: str, reason: str) -> None:
    assert reason_of(said.encode(), 128) == reason


@pytest.mark.parametrize(
    ("free_bytes", "free_files", "all_files", "full"),
    [
        (0, 9, 9, True),
        (4096, 9, 9, True),
        (1 << 20, 9, 9, False),
        (1 << 20, 0, 9, True),
        (1 << 20, 0, 0, False),
    ],
)
def test_disk_without_bytes_or_files_is_full(
    free_bytes: int, free_files: int, all_files: int, full: bool
) -> None:
    assert is_full(free_bytes, free_files, all_files) is full


def test_full_disk_is_named_with_the_words_of_git() -> None:
    error = disk_full("/home/u/app", "unable to write file blob")
    assert error.message == ("the disk of /home/u/app is full (unable to write file blob)")
    assert error.hint == "df -h /home/u/app"
