"""Making a worktree on a full disk, and in a process that is killed: nothing half-made stays that nobody may take."""

import errno
import os
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
from tests.work_loss.deaths import die_by_signal

pytestmark = pytest.mark.processes  # git

_CHANGES_MAX = 200


class Making:
    """A worktree `login` of a repository, which is made again and again."""

    def __init__(self, directory: Path, *, is_unborn: bool) -> None:
        self.repo = directory / "app"
        if is_unborn:
            self.repo.mkdir()
            git(self.repo, "init", "-q", "-b", "main")
        else:
            make_app(directory)
        self.claims = directory / "state" / "worktrees"
        self.claim = Claim(str(self.claims / "login"))

    def plan(self) -> PlannedTree:
        return plan_tree(str(self.repo), "login", TreeWish(), PLACE, "sm/{name}", lambda *_: None)

    def make(self, plan: PlannedTree) -> None:
        never = threading.Event()
        with self.claim.held(never):
            make_tree(plan, TreeFiles(), self.claim, 60, lambda *_: None, never)

    def try_to_make(self, plan: PlannedTree) -> str | None:
        """Returns the error, or None if there is none."""
        try:
            self.make(plan)
        except ExternalError as error:
            return error.message
        return None

    def die(self, plan: PlannedTree, changes: int) -> bool:
        """Make it in a process that is killed before the change of this number. Returns False if there is none."""
        if (pid := os.fork()) == 0:
            try:
                die_by_signal(changes)
                self.make(plan)
            finally:
                os._exit(0)
        return os.WIFSIGNALED(os.waitpid(pid, 0)[1])

    def left(self) -> dict[str, list[str]]:
        """The names of things that stay."""
        own = self.repo / ".git" / "worktrees"
        found = {
            "branches": [name for name in branches(self.repo) if name not in ("main", "")],
            "directories": [str(path) for path in (self.repo / ".sm").glob("**/*")],
            "git directories": [path.name for path in own.iterdir()] if own.exists() else [],
        }
        return {what: names for what, names in found.items() if names}


@pytest.fixture(params=["born", "unborn"])
def making(tmp_path: Path, request: pytest.FixtureRequest) -> Making:
    return Making(tmp_path, is_unborn=request.param == "unborn")


def test_nothing_stays_of_a_process_that_is_killed_at_any_moment(making: Making) -> None:
    left, plan = dict[int, object](), making.plan()
    for changes in range(_CHANGES_MAX):
        is_killed = making.die(plan, changes)
        remove_remains(plan, making.claim)
        if found := making.left():
            left[changes] = found
            shutil.rmtree(plan.path, ignore_errors=True)
            git(making.repo, "worktree", "prune")
            git(making.repo, "update-ref", "-d", f"refs/heads/{plan.branch}")
        if not is_killed:
            break
    assert (left, is_killed) == ({}, False)
    assert making.plan() == plan


class FullDisk:
    """The disk of the state directory, which has no room from the write of some number on."""

    def __init__(self, directory: Path, writes: int, patch: pytest.MonkeyPatch) -> None:
        self.left, self.is_full = writes, False
        write = os.write

        def limited(descriptor: int, data: bytes) -> int:
            path = os.readlink(f"/proc/self/fd/{descriptor}")
            if path.startswith(str(directory)) or path.endswith("/sm-claim"):
                self.left -= 1
                if self.left < 0:
                    self.is_full = True
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return write(descriptor, data)

        patch.setattr(os, "write", limited)


def test_nothing_stays_when_a_claim_has_no_room(making: Making, monkeypatch: pytest.MonkeyPatch) -> None:
    left, plan, is_full = dict[int, object](), making.plan(), True
    writes = 0
    while is_full:
        with monkeypatch.context() as patch:
            disk = FullDisk(making.claims, writes, patch)
            error = making.try_to_make(plan)
        is_full = disk.is_full
        assert ("No space left on device" in str(error)) == is_full
        if is_full and (found := making.left()):
            left[writes] = found
            shutil.rmtree(plan.path, ignore_errors=True)
            git(making.repo, "worktree", "prune")
            git(making.repo, "update-ref", "-d", f"refs/heads/{plan.branch}")
        writes += 1
    assert (left, writes > 1) == ({}, True)
    assert Path(plan.path, ".git").exists()


def test_branch_of_a_person_that_came_after_the_plan_stays(tmp_path: Path) -> None:
    making = Making(tmp_path, is_unborn=False)
    plan = making.plan()
    git(making.repo, "branch", plan.branch, plan.start)
    for _ in range(2):
        with pytest.raises(Exception, match="cannot create branch sm/login"):
            making.make(plan)
        remove_remains(plan, making.claim)
        assert branches(making.repo) == ["main", "sm/login"]


def test_branch_that_a_person_has_made_again_after_a_crash_stays(tmp_path: Path) -> None:
    making = Making(tmp_path, is_unborn=False)
    plan = making.plan()
    making.make(plan)
    git(making.repo, "worktree", "remove", plan.path)
    git(making.repo, "branch", "-D", plan.branch)
    git(making.repo, "branch", plan.branch, plan.start)
    remove_remains(plan, making.claim)
    assert branches(making.repo) == ["main", "sm/login"]


def test_branch_with_a_commit_stays(tmp_path: Path) -> None:
    making = Making(tmp_path, is_unborn=False)
    plan = making.plan()
    making.make(plan)
    commit(Path(plan.path), "work\n")
    git(making.repo, "worktree", "remove", plan.path)
    remove_remains(plan, making.claim)
    assert branches(making.repo) == ["main", "sm/login"]
