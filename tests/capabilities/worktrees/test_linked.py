"""The removal of linked worktrees: only the worktree itself, as a whole or so that it can be continued."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from sm.capabilities.worktrees.git.calls import time_limit
from sm.capabilities.worktrees.git.linked import remove_linked
from sm.capabilities.worktrees.unsaved_work import unsaved_files
from sm.errors import ExternalError, IllegalState
from tests.git_repositories import git, make_app

pytestmark = pytest.mark.processes  # git


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A worktree of the repository `app`, with a directory and two files."""
    repo, path = make_app(tmp_path), tmp_path / "tree"
    (repo / "top").write_text("x")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "second")
    git(repo, "worktree", "add", "-q", str(path))
    return path


def worktrees(tree: Path) -> int:
    return git(tree.parent / "app", "worktree", "list").count("\n") + 1


def test_removal_has_no_time_limit_and_follows_no_link(tree: Path) -> None:
    (tree.parent / "outside").mkdir()
    (tree.parent / "outside" / "file").touch()
    (tree / "link").symlink_to(tree.parent / "outside")
    (tree / "api" / "link").symlink_to(tree.parent / "outside")
    with time_limit(0):
        remove_linked(str(tree))
    assert not tree.exists()
    assert (tree.parent / "outside" / "file").exists()
    assert worktrees(tree) == 1


def test_removal_that_was_stopped_halfway_is_continued(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:

        def fail(name: str, **_: Any) -> None:
            raise PermissionError(13, "Permission denied", name)

        patched.setattr(shutil, "rmtree", fail)
        with pytest.raises(ExternalError, match="cannot remove api: Permission denied"):
            remove_linked(str(tree))
    (tree / "top").unlink(missing_ok=True)
    assert unsaved_files(str(tree)) == []
    (tree / "api" / "a.txt").write_text("somebody works on")
    assert unsaved_files(str(tree)) == ["1 uncommitted or untracked file (api/a.txt)"]
    remove_linked(str(tree))
    assert (tree.exists(), worktrees(tree)) == (False, 1)


@pytest.mark.parametrize("kind", ["locked", "main", "other"])
def test_removal_is_refused_with_a_reason(tree: Path, kind: str) -> None:
    repo, path, reason = tree.parent / "app", tree, "do not name each other"
    if kind == "locked":
        git(repo, "worktree", "lock", str(tree))
        reason = "it is locked"
    elif kind == "main":
        path = repo
    else:  # an agent writes `.git`
        git(repo, "worktree", "add", "-q", str(tree.parent / "other"))
        shutil.copy(tree.parent / "other" / ".git", tree / ".git")
    before = sorted(os.listdir(path)), worktrees(tree)
    with pytest.raises(IllegalState, match=reason):
        remove_linked(str(path))
    assert (sorted(os.listdir(path)), worktrees(tree)) == before
