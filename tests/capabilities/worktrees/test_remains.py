"""Removal of the remains of a worktree that was not finished, unless work of somebody may be in it."""

import shutil
import threading
from pathlib import Path

import pytest

from sm.capabilities.worktrees.making.claims import Claim
from sm.capabilities.worktrees.making.filling import make_tree
from sm.capabilities.worktrees.making.planning import plan_tree
from sm.capabilities.worktrees.making.remains import remove_remains
from sm.capabilities.worktrees.model import PlannedTree, TreeFiles, TreeWish
from sm.capabilities.worktrees.rules import PLACE
from sm.errors import ExternalError
from tests.git_repositories import branches, commit, git, make_app

pytestmark = pytest.mark.processes  # git


class Remains:
    """A worktree that is whole, but whose process ended before it could say so."""

    def __init__(self, directory: Path) -> None:
        self.repo = make_app(directory)
        (self.repo / "local.yml").write_text("of the repository\n")
        self.plan: PlannedTree = plan_tree(
            str(self.repo), "login", TreeWish(), PLACE, "sm/{name}", lambda *_: None
        )
        self.path = Path(self.plan.path)
        self.claim = Claim(str(directory / "claim"))
        make_tree(self.plan, TreeFiles(("local.yml",)), self.claim, 60, lambda *_: None, threading.Event())

    def remove(self) -> str | None:
        """Try to remove it. Returns the reason if it stays."""
        try:
            remove_remains(self.plan, self.claim)
        except ExternalError as error:
            return error.message
        return None


@pytest.fixture
def remains(tmp_path: Path) -> Remains:
    return Remains(tmp_path)


def test_copied_files_are_no_work(remains: Remains) -> None:
    assert (remains.path / "local.yml").exists()
    assert remains.remove() is None
    assert not remains.path.exists()
    assert branches(remains.repo) == ["main"]
    assert git(remains.repo, "worktree", "list").count("\n") == 0


def test_changed_copy_is_work(remains: Remains) -> None:
    (remains.path / "local.yml").write_text("of a person\n")
    assert "it has changes that exist nowhere else: local.yml" in str(remains.remove())
    assert (remains.path / "local.yml").read_text() == "of a person\n"
    assert branches(remains.repo) == ["main", "sm/login"]


@pytest.mark.parametrize("kind", ["commit", "untracked", "ignored clone", "hidden"])
def test_work_of_a_person_is_kept(remains: Remains, kind: str) -> None:
    work = remains.path / "api" / "a.txt"
    match kind:
        case "commit":
            commit(remains.path, "of a person\n")
        case "untracked":
            work = remains.path / "directory" / "new"
            work.parent.mkdir()
            work.write_text("of a person\n")
        case "ignored clone":
            (remains.repo / ".git" / "info" / "exclude").write_text("lib/\n")
            git(remains.repo, "clone", "-q", str(remains.repo), str(remains.path / "lib"))
            work = remains.path / "lib" / "api" / "a.txt"
            commit(remains.path / "lib", "only there\n")
        case _:
            git(remains.path, "update-index", "--assume-unchanged", "api/a.txt")
            work.write_text("of a person\n")
    before = work.read_text()
    assert "it has changes that exist nowhere else" in str(remains.remove())
    assert work.read_text() == before


def test_worktree_is_kept_when_git_cannot_look(remains: Remains) -> None:
    git(remains.repo, "config", "filter.x.clean", "cat")
    (remains.path / "new").write_text("of a person\n")
    assert "sm cannot look for work in it" in str(remains.remove())
    assert (remains.path / "new").exists()


def test_new_file_is_kept_when_the_checkout_has_not_finished(remains: Remains) -> None:
    own = Path(git(remains.path, "rev-parse", "--absolute-git-dir"))
    (own / "index").unlink()
    shutil.copy(remains.repo / "local.yml", remains.path / "new")
    assert "it has changes that exist nowhere else" in str(remains.remove())
    (remains.path / "new").unlink()
    (remains.path / "local.yml").unlink()
    assert remains.remove() is None


def test_removal_that_was_killed_goes_on(remains: Remains) -> None:
    """The file `.git`, by which the worktree is known, is removed last."""
    shutil.rmtree(remains.path / "api")
    assert remains.remove() is None
    assert not remains.path.exists()


def test_directory_that_cannot_be_removed_is_told(remains: Remains, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    assert "cannot remove the worktree" in str(remains.remove())
    monkeypatch.undo()
    assert remains.remove() is None


def test_worktree_below_a_directory_named_like_those_of_git_is_not_claimed(tmp_path: Path) -> None:
    """A person has made a worktree in the place, in a repository below such a directory."""
    directory = tmp_path / "sm-git-x"
    directory.mkdir()
    repo = make_app(directory)
    git(repo, "worktree", "add", "-q", str(repo / "login"))
    assert not Claim(str(tmp_path / "claim")).has_worktree(str(repo / "login"))
