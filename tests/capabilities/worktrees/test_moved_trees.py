"""Work that git keeps for a worktree whose directory is missing."""

import os
import subprocess
from pathlib import Path

import pytest

from sm.capabilities.worktrees.missing_trees import missing_work
from sm.capabilities.worktrees.own_trees import OwnTree
from sm.capabilities.worktrees.trees import remove_tree
from tests.git_repositories import branches, commit, git, make_app

pytestmark = pytest.mark.processes

UNFINISHED = "an unfinished rebase, merge, cherry-pick or bisect"


def free() -> None:
    """Say that nobody works in the worktree."""


class MovedTree:
    """A worktree of the repository `repo` with one commit, which is merged, and its place after a move."""

    def __init__(self, directory: Path) -> None:
        self.repo = make_app(directory)
        self.path, self.moved = self.repo / ".sm" / "worktrees" / "login", directory / "moved"
        git(self.repo, "worktree", "add", "-q", "-b", "sm/login", str(self.path))
        start, common = git(self.repo, "rev-parse", "HEAD"), str(self.repo / ".git")
        self.tree = OwnTree(str(self.path), "sm/login", str(self.repo), start, common)
        self.own = Path(git(self.path, "rev-parse", "--absolute-git-dir"))
        commit(self.path, "b")
        git(self.repo, "merge", "-q", "sm/login")

    def work(self) -> list[str]:
        """Move the directory, and find the work that git has of it."""
        self.path.rename(self.moved)
        return list(missing_work(self.tree))

    def add_submodule(self) -> Path:
        library = self.repo.parent / "library"
        library.mkdir()
        git(library, "init", "-q", "-b", "main")
        git(library, "commit", "-q", "--allow-empty", "-m", "first")
        git(self.path, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "lib")
        git(self.path, "commit", "-q", "-m", "submodule")
        git(self.repo, "merge", "-q", "sm/login")
        return self.path / "lib"


@pytest.fixture
def moved(tmp_path: Path) -> MovedTree:
    return MovedTree(Path(os.path.realpath(tmp_path)))


def assert_kept(moved: MovedTree, work: list[str]) -> None:
    assert moved.work() == work
    kept = remove_tree(moved.tree, free)
    assert kept == f"kept the worktree {moved.path}: its directory is missing, and git has {'; '.join(work)}"
    moved.moved.rename(moved.path)
    git(moved.path, "status")


def test_worktree_without_work_is_forgotten(moved: MovedTree) -> None:
    moved.add_submodule()
    assert moved.work() == []
    assert remove_tree(moved.tree, free) is None
    assert (moved.own.exists(), branches(moved.repo)) == (False, ["main"])


def test_commits_of_a_deleted_branch_are_kept(moved: MovedTree) -> None:
    commit(moved.path, "c")
    git(moved.path, "switch", "-q", "--detach", "main")
    git(moved.path, "branch", "-q", "-D", "sm/login")
    assert_kept(moved, ["1 commit of a deleted branch"])


def test_uncommitted_changes_of_an_autostash_are_kept(moved: MovedTree) -> None:
    (moved.path / "api" / "a.txt").write_text("uncommitted\n")
    environment = {**os.environ, "GIT_SEQUENCE_EDITOR": "sed -i 1ibreak"}
    identity = ("-c", "user.name=x", "-c", "user.email=x@localhost")
    words = ("git", *identity, "-C", str(moved.path), "rebase", "-q", "-i", "--autostash", "HEAD~1")
    subprocess.run(words, env=environment, capture_output=True, check=True)
    assert (moved.own / "rebase-merge" / "autostash").exists()
    assert_kept(moved, [UNFINISHED])


def test_patches_that_are_not_applied_yet_are_kept(moved: MovedTree) -> None:
    (moved.repo.parent / "a.patch").write_text(git(moved.path, "format-patch", "-1", "--stdout") + "\n")
    git(moved.path, "am", str(moved.repo.parent / "a.patch"), fails=True)
    assert_kept(moved, [UNFINISHED])


def test_staged_changes_of_a_submodule_are_kept(moved: MovedTree) -> None:
    library = moved.add_submodule()
    (library / "new.txt").touch()
    git(library, "add", "new.txt")
    assert_kept(moved, ["staged changes in the submodule lib"])


@pytest.mark.parametrize(
    ("reason", "shown"), [("", "it is locked"), ("on a disk", "it is locked (on a disk)")]
)
def test_locked_worktree_is_kept_with_discard_too(moved: MovedTree, reason: str, shown: str) -> None:
    git(moved.repo, "worktree", "lock", f"--reason={reason}", str(moved.path))
    assert moved.work() == []
    kept = remove_tree(moved.tree, free, frozenset())
    assert kept == (
        f"kept the worktree {moved.path}: its directory is missing, and {shown}; "
        f"to unlock it: git -C {moved.repo} worktree unlock {moved.path}"
    )
    git(moved.repo, "worktree", "unlock", str(moved.path))
    assert remove_tree(moved.tree, free, frozenset()) is None
    assert (moved.own.exists(), branches(moved.repo)) == (False, ["main"])
