"""A forked process makes worktrees as a new one does."""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from sm.capabilities.worktrees import maker
from sm.capabilities.worktrees.model import TreeFiles, TreeWish
from sm.capabilities.worktrees.rules import PLACE
from tests.forked_making import forked_makings
from tests.git_repositories import make_app

pytestmark = pytest.mark.processes
_ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LANG": "C.UTF-8"}


def started(task: Mapping[str, Any]) -> maker._Talk:
    return maker._Talk({"umask": 0o022, **task}, _ENVIRONMENT, maker.is_readable, 60)


def plan(directory: Path, wish: TreeWish) -> Mapping[str, Any]:
    task = {"act": "plan", "directory": str(directory), "name": "x", "wish": asdict(wish)}
    return {**task, "place": PLACE, "branch": "sm/{name}"}


def talk(task: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The questions of a process for a task, and its result or its error."""
    process = started(task)
    heard: list[dict[str, Any]] = []
    while not heard or "places" in heard[-1]:
        heard.append(process.next(lambda *_: None))
        process.say({})
    process.hang_up()
    process.end()
    return [{**line, "places": sorted(line["places"])} if "places" in line else line for line in heard]


def whole_life(directory: Path, claim: Path, wish: TreeWish) -> list[dict[str, Any]]:
    """The lines of the processes that plan, make and remove a worktree."""
    said = talk(plan(directory, wish))
    if "done" not in said[-1]:
        return said
    planned = said[-1]["done"]
    more: dict[str, Any] = {"plan": {**planned, "umask": 0o022}, "claim": str(claim)}
    limits = {"again": False, "within_s": 60, "copy_max_bytes": 1 << 20}
    said += talk({"act": "make", **more, **limits, "files": asdict(TreeFiles())})
    assert list(Path(planned["path"]).rglob("a.txt"))
    if wish.copy:
        said[-1]["done"]["start"] = "a commit with its time"
    return said + talk({"act": "remove", **more})


@pytest.mark.parametrize("wish", [TreeWish(), TreeWish(base="none"), TreeWish(copy=True)])
@pytest.mark.parametrize("is_repository", [True, False])
def test_forked_process_says_what_a_new_one_says(tmp_path: Path, wish: TreeWish, is_repository: bool) -> None:
    directory = make_app(tmp_path) if is_repository else tmp_path / "plain"
    if not is_repository:
        directory.mkdir()
        (directory / "a.txt").write_text("a\n")
    lives = []
    processes: tuple[AbstractContextManager[object], ...] = (nullcontext(), forked_makings())
    for context in processes:
        with context:
            lives.append(whole_life(directory, tmp_path / "claim", wish))
    assert lives[0] == lives[1]
    assert ("done" in lives[0][-1]) is (wish == TreeWish(copy=not is_repository))


@pytest.mark.parametrize("processes", [nullcontext, forked_makings])
def test_process_is_waited_for_with_a_limit_and_killed_with_its_group(
    tmp_path: Path, processes: Callable[[], AbstractContextManager[object]]
) -> None:
    with processes():
        process = started(plan(make_app(tmp_path), TreeWish()))
    assert "places" in process.next(lambda *_: None)
    with pytest.raises(subprocess.TimeoutExpired):
        process._process.wait(0)
    process._kill()
    assert process._process.wait(60) == -signal.SIGKILL
    process.hang_up()
    process.end()
