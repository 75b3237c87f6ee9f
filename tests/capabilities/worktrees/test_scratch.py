"""Temporary directories of commands: those of killed ones are removed, and no other ones."""

import fcntl
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from sm.capabilities.worktrees.git.scratch import GIT_DIRECTORY, scratch_directory
from sm.capabilities.worktrees.git.scratch_worktrees import remove_left_directories
from tests.git_repositories import git, make_app


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for temporary directories."""
    path = tmp_path / "tmp"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


def left(base: Path, name: str, owner: str | None = "") -> Path:
    """A directory as a killed command leaves it."""
    path = base / name
    path.mkdir(mode=0o700)
    if owner is not None:
        (path / "sm-owner").write_text(owner)
    (path / "link").symlink_to(base.parent)
    return path


@pytest.mark.parametrize("name", ["sm-git-x", "sm-merge-x", "sm-diff-x"])
def test_directory_of_a_killed_command_is_removed(base: Path, name: str) -> None:
    path = left(base, name)
    remove_left_directories()
    assert not path.exists()
    assert base.parent.exists()


def test_directory_of_somebody_else_stays(base: Path) -> None:
    unmarked = left(base, "sm-git-unmarked", owner=None)
    other = left(base, "other-x")
    readable = left(base, "sm-git-readable")
    readable.chmod(0o755)
    target = left(base, "target")
    (base / "sm-git-link").symlink_to(target)
    linked = left(base, "sm-git-linked", owner=None)
    (linked / "sm-owner").symlink_to(target / "sm-owner")
    before = sorted(base.rglob("*"))
    remove_left_directories()
    assert sorted(base.rglob("*")) == before
    assert unmarked.exists() and other.exists()


def test_directory_that_a_command_uses_stays(base: Path) -> None:
    with scratch_directory(GIT_DIRECTORY) as used:
        remove_left_directories()
        assert os.listdir(used) == ["sm-owner"]
    assert list(base.iterdir()) == []


@pytest.mark.processes
@pytest.mark.parametrize("by", ["variable", "working directory"])
def test_directory_stays_while_a_child_of_the_killed_command_runs(base: Path, by: str) -> None:
    path = left(base, "sm-git-x")
    by_variable = by == "variable"
    variables = {"PATH": os.environ["PATH"], **({"GIT_COMMON_DIR": str(path)} if by_variable else {})}
    with subprocess.Popen(
        ["cat"],
        env=variables,
        cwd=base if by_variable else path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(b"x")
        child.stdin.flush()
        child.stdout.read(1)  # it runs
        remove_left_directories()
        assert path.exists()
        child.stdin.close()
    remove_left_directories()
    assert not path.exists()


@pytest.mark.processes  # git
def test_repository_forgets_the_worktree_of_a_killed_merge_and_no_other_one(base: Path) -> None:
    repo = make_app(base.parent)
    path = left(base, "sm-merge-x", owner=str(repo / ".git"))
    git(repo, "worktree", "add", "-q", "--detach", str(path / "files"))
    git(repo, "worktree", "add", "-q", "--detach", str(base.parent / "away"))
    (base.parent / "away").rename(base.parent / "elsewhere")  # as on a disk that is not mounted now
    remove_left_directories()
    assert not path.exists()
    assert git(repo, "worktree", "list").count("\n") == 1
    (base.parent / "elsewhere").rename(base.parent / "away")
    assert git(base.parent / "away", "status", "--porcelain") == ""


def test_directory_is_never_marked_without_a_lock(base: Path) -> None:
    with scratch_directory(GIT_DIRECTORY) as directory:
        descriptor = os.open(f"{directory}/sm-owner", os.O_RDWR)
        try:
            with pytest.raises(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(descriptor)
