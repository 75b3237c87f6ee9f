"""The repositories inside of a worktree that are no submodules, whose work would be removed with it."""

from pathlib import Path

import pytest

from sm.capabilities.worktrees.nested_repositories import nested_work
from tests.git_repositories import git, make_app

pytestmark = pytest.mark.processes  # git


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A worktree of the repository `app`, which ignores the directory `cache`."""
    repo, path = make_app(tmp_path), tmp_path / "tree"
    (repo / ".git" / "info" / "exclude").write_text("cache/\n")
    git(repo, "worktree", "add", "-q", str(path))
    (path / "cache").mkdir()
    return path


def found(top: Path) -> list[str]:
    return list(nested_work(str(top), ()))


@pytest.mark.parametrize("is_pushed", [False, True])
def test_bare_repository_with_a_commit_of_its_own_is_work(top: Path, is_pushed: bool) -> None:
    bare = top / "cache" / "lib.git"
    git(top, "clone", "-q", "--bare", str(top.parent / "app"), str(bare))
    if is_pushed:
        git(bare, "fetch", "-q", "origin", "+refs/heads/*:refs/remotes/origin/*")
    expected = "the repository cache/lib.git with 1 commit in no remote branch"
    assert found(top) == ([] if is_pushed else [expected])


def test_linked_worktree_that_was_moved_by_hand_is_work(top: Path) -> None:
    """The repository does not know its place, so it is removed as any other directory."""
    away, moved = top.parent / "away", top / "cache" / "moved"
    git(top.parent / "app", "worktree", "add", "-q", str(away))
    (away / "new").touch()
    away.rename(moved)
    assert len(found(top)) == 1
    assert found(top)[0].startswith("the repository cache/moved")


def test_linked_worktree_that_its_repository_knows_is_left_to_the_refusal_of_the_removal(top: Path) -> None:
    inside = top / "cache" / "inside"
    git(top.parent / "app", "worktree", "add", "-q", str(inside))
    (inside / "new").touch()
    assert found(top) == []
