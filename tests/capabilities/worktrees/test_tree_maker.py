"""The process that the daemon starts for a worktree, when it hangs or is killed."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from sm.capabilities.worktrees.maker import TreeMaker
from sm.capabilities.worktrees.model import TreeWish
from sm.capabilities.worktrees.settings import WorktreeSettings
from sm.config import SandboxSection
from sm.core.models import Process
from sm.errors import ExternalError
from sm.linux.processes import identify, is_alive
from sm.sessions.writable_paths import WritablePaths
from sm.store import Store
from tests.git_repositories import branches, git, make_app
from tests.waits import until

pytestmark = pytest.mark.processes


class HungProcess:
    """In place of Python: a process that hangs with a child, as at a file system that does not answer."""

    def __init__(self, directory: Path, patch: pytest.MonkeyPatch) -> None:
        self._pids = directory / "pids"
        program = directory / "python"
        program.write_text(
            "#!/bin/sh\n"
            'sleep 100000 & echo \'{"step": "looking", "percent": null}\'\n'
            f"echo $$ $! >{self._pids}.new; mv {self._pids}.new {self._pids}; wait\n"
        )
        program.chmod(0o755)
        patch.setattr(sys, "executable", str(program))
        self._looks = 0
        self.processes = list[Process]()

    def is_readable(self, descriptor: int, within_s: float) -> bool:
        """Play the passing of time, once the process has said its only line and hangs."""
        self._looks += 1
        if self._looks > 1 and not self.processes:
            until(self._pids.exists, "the process hangs")
            found = (identify(int(pid)) for pid in self._pids.read_text().split())
            self.processes = [process for process in found if process is not None]
        return self._looks == 1


async def test_plan_that_hangs_outside_of_git_ends_with_its_process_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung = HungProcess(tmp_path, monkeypatch)
    async with await Store.open(str(tmp_path / "sm.db")) as store:
        writable = WritablePaths(store, lambda _: SandboxSection())
        maker = TreeMaker(WorktreeSettings, writable, str(tmp_path), lambda: "", hung.is_readable)
        with pytest.raises(ExternalError, match="hung for 90 s: a file system may not answer"):
            await maker.plan("/", None, TreeWish(), {"PATH": "/usr/bin:/bin"}, 0o022)
    assert len(hung.processes) == 2
    until(lambda: not any(map(is_alive, hung.processes)), "the process and its child have ended")


async def test_result_of_an_earlier_worktree_is_not_taken_for_that_of_a_killed_process(
    tmp_path: Path,
) -> None:
    """A claim stays if the daemon ends before it hands the worktree over."""
    repo = make_app(tmp_path)
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    script = 'case " $* " in *" checkout "*) kill -9 $PPID;; esac\nexec /usr/bin/git "$@"\n'
    program.write_text(f"#!/bin/sh\n{script}")
    program.chmod(0o755)
    good, bad = {"PATH": os.environ["PATH"]}, {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    async with await Store.open(str(tmp_path / "sm.db")) as store:
        writable = WritablePaths(store, lambda _: SandboxSection())
        maker = TreeMaker(WorktreeSettings, writable, str(tmp_path / "claims"), lambda: "")
        plan = await maker.plan(str(repo), "login", TreeWish(), good, 0o022)
        await maker.make(plan, good, lambda *_: None, again=False)
        shutil.rmtree(plan.path)
        git(repo, "worktree", "prune")
        git(repo, "branch", "-D", "sm/login")
        with pytest.raises(ExternalError, match="the process that makes worktrees has ended"):
            await maker.make(plan, bad, lambda *_: None, again=False)
        await maker.make(plan, good, lambda *_: None, again=True)
    assert (Path(plan.path) / "api" / "a.txt").exists()
    assert branches(repo) == ["main", "sm/login"]
