"""The process that the daemon starts for a worktree, when it hangs."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sm.capabilities.worktrees.maker import TreeMaker, is_readable
from sm.capabilities.worktrees.model import PlannedTree, TreeWish
from sm.capabilities.worktrees.settings import WorktreeSettings
from sm.config import SandboxSection
from sm.core.models import Process
from sm.errors import ExternalError
from sm.linux.processes import identify, is_alive
from sm.sessions.writable_paths import WritablePaths
from sm.store import Store
from tests.git_repositories import make_app
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


ENVIRONMENT = {"PATH": "/usr/bin:/bin"}


@asynccontextmanager
async def tree_maker(
    directory: Path, is_readable: Callable[[int, float], bool] = is_readable
) -> AsyncIterator[TreeMaker]:
    async with await Store.open(str(directory / "sm.db")) as store:
        writable = WritablePaths(store, lambda _: SandboxSection())
        yield TreeMaker(WorktreeSettings, writable, str(directory / "claims"), lambda: "", is_readable)


async def test_plan_that_hangs_outside_of_git_ends_with_its_process_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung = HungProcess(tmp_path, monkeypatch)
    async with tree_maker(tmp_path, hung.is_readable) as maker:
        with pytest.raises(ExternalError, match="hung for 90 s: a file system may not answer"):
            await maker.plan("/", None, TreeWish(), ENVIRONMENT, 0o022)
    assert len(hung.processes) == 2
    until(lambda: not any(map(is_alive, hung.processes)), "the process and its child have ended")


async def test_removal_that_hangs_outside_of_git_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kill of the session waits for it."""
    hung = HungProcess(tmp_path, monkeypatch)
    plan = PlannedTree("/tree", "b", "/tree", "/", "/.git", "/")
    async with tree_maker(tmp_path, hung.is_readable) as maker:
        with pytest.raises(ExternalError, match="hung for 600 s: a file system may not answer"):
            await maker.remove(plan, ENVIRONMENT)
    until(lambda: not any(map(is_alive, hung.processes)), "the process and its child have ended")


async def test_reason_is_told_when_the_process_cannot_write_its_claim(tmp_path: Path) -> None:
    repo = str(make_app(tmp_path))
    (tmp_path / "claims").touch()
    async with tree_maker(tmp_path) as maker:
        plan = await maker.plan(repo, "login", TreeWish(), ENVIRONMENT, 0o022)
        for act in (
            maker.make(plan, ENVIRONMENT, lambda *_: None, again=False),
            maker.remove(plan, ENVIRONMENT),
        ):
            with pytest.raises(ExternalError, match=f"{tmp_path}/claims: File exists"):
                await act
