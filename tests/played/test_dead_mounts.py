"""Directories whose file system does not answer, such as NFS without its server: the daemon goes on without them."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import pytest

from sm.linux import file_threads
from sm.linux.file_threads import PER_MOUNT_MAX
from sm.linux.mount_points import mount_points
from tests.fixtures import context_fixture
from tests.sim.stage import BOX, Stage, until

SETTINGS = """
child_agents: {progress: {snapshot_interval: 1}}
daemon: {ignore_evidence: [screen, title]}
"""
_DEFAULT_THREADS = 6
"""The number of threads of asyncio on a machine with two cores."""
stage = context_fixture("function", Stage, SETTINGS, BOX)


class DeadMount:
    """Lets each call in a thread that names a path in the mount hang, and with it the thread."""

    def __init__(self, stage: Stage, place: str, patch: pytest.MonkeyPatch) -> None:
        self._loop, self._place = stage.loop, place
        self.hanging: Counter[Executor | None] = Counter()
        run = stage.loop.run_in_executor

        def run_or_hang(
            executor: Executor | None, func: Callable[..., Any], *args: Any
        ) -> "asyncio.Future[Any]":
            hangs = any(self._names(argument) for argument in (*getattr(func, "args", ()), *args))
            self.hanging[executor] += hangs
            if hangs or (executor is None and self.hanging[executor] >= _DEFAULT_THREADS):
                return self._loop.create_future()
            return run(executor, func, *args)

        patch.setattr(stage.loop, "run_in_executor", run_or_hang)
        patch.setattr(
            file_threads, "mount_points", lambda pid: frozenset([*(mount_points(pid) or ()), place])
        )

    def _names(self, argument: object) -> bool:
        return isinstance(argument, str) and (argument + "/").startswith(self._place + "/")


@pytest.mark.parametrize("ended", [False, True], ids=["live agents", "ended agents"])
def test_daemon_starts_and_answers_when_many_agents_work_in_a_mount_that_does_not_answer(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, *, ended: bool
) -> None:
    place = stage.work / "dead"
    place.mkdir()
    agents = [stage.agent("Plain", cwd=place) for _ in range(20)]
    here = stage.agent("Plain")
    stage.kill_daemon()
    if ended:
        for agent in agents:
            stage.world.kernel.signal(stage.world.programs.running[agent.id].process, 9)
    mount = DeadMount(stage, str(place), monkeypatch)
    stage.start_daemon()
    stage.wait(60)
    assert sum(mount.hanging.values()) <= PER_MOUNT_MAX
    expected = "error" if ended else "running"
    assert {stage.session(agent.id)["status"] for agent in agents} == {expected}
    here.send_event("UserPromptSubmit", prompt="work", prompt_id="p1")
    until(lambda: stage.session(here.id)["status"] == "running", "its turn is seen")
    assert stage.session(stage.agent("Plain").id)["status"] in ("starting", "running")
    os.rmdir(place)


def test_starts_and_restores_in_a_mount_that_does_not_answer_keep_no_other_session_from_starting(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = stage.work / "dead"
    place.mkdir()
    ended = [stage.agent("Plain", cwd=place) for _ in range(8)]
    for agent in ended:
        stage.sm("kill", agent.id)
    mount = DeadMount(stage, str(place), monkeypatch)
    stage.wait(10)  # the daemon learns of the mount
    waiting = [stage.start_command("restore", agent.id) for agent in ended]
    waiting += [
        stage.start_command("spawn", "Plain", "x", "--working-dir", str(place), "--trust", "direct")
        for _ in range(8)
    ]
    stage.wait(10)
    assert all(command.poll() is None for command in waiting)
    assert mount.hanging[None] == 0
    assert stage.session(stage.agent("Plain").id)["status"] in ("starting", "running")
    os.rmdir(place)
