"""Processes of a sandboxed agent that left its process tree: a kill ends them, and every other ending lists them.

They drop their environment, so that only the cgroup of the session finds them. A second session in the same container
does the same, and keeps its processes.
"""

import os
import secrets
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sm.core.models import Process
from sm.linux.cgroups import container_of
from sm.linux.processes import identify, other_pids
from tests.instance import Instance, until
from tests.integration.leavers import AS_ROOT, WAYS, leave_tree_file
from tests.integration.test_leftovers import orphans
from tests.integration.test_sandbox import OWNER, open_instance
from tests.sandboxes.docker.real_container import pid_inside

NOT_IN_IMAGE = {"terminal_server"}
"""Ways that need a program that the image of the tests does not have."""
CHOSEN = {"daemon", "other_program", "nested_shells", "stop", "cron"}
"""The ways of `./check`: each leaves the tree by another call. On this host all run (test_leftovers.py)."""


def kill_ways() -> list[Any]:
    ways = [way for way in WAYS if way not in AS_ROOT | NOT_IN_IMAGE]
    return [pytest.param(way, marks=[] if way in CHOSEN else pytest.mark.full) for way in ways]


@pytest.fixture(scope="module")
def instance(engine: str, sandbox_image: str) -> Iterator[Instance]:
    instance = open_instance(engine, sandbox_image)
    shutil.copy(leave_tree_file, instance.work / "leave_tree.py")
    yield instance
    instance.end()


class Leaver:
    """A sandboxed session, and a process that has left the process tree of its agent."""

    def __init__(self, instance: Instance, way: str, *, at_once: bool = False) -> None:
        self.out = instance.work / f"{way}-{secrets.token_hex(4)}"
        # The agent leaves the tree once its cgroup is known to hold it.
        gate = Path(f"{self.out}.gate")
        os.mkfifo(gate)
        os.chown(gate, OWNER, OWNER)
        leave = f"env -i PATH=$PATH python3 leave_tree.py {way} {self.out}"
        script = f"{leave}; exec sleep 1000000"
        self.session = instance.spawn(
            "Sh", script if at_once else f"read -r go <{gate}; {script}", "--workspace", "shop"
        )
        self.session_id: str = self.session["session_id"]
        assert self.session["effective_mode"] == "sandboxed"
        self.agent_pid: int = instance.session(self.session_id)["pid"]
        self.container = container_of(self.agent_pid)
        if not at_once:
            until(lambda: self.session_id in Path(f"/proc/{self.agent_pid}/cgroup").read_text(), "its cgroup")
            gate.write_text("go\n")
        inside = until(lambda: int(self.out.read_text() or 0), "the process that is left")
        self.process: Process = until(lambda: self._find(inside), "the process that is left")

    def _find(self, inside: int) -> Process | None:
        pids = (pid for pid in other_pids() if container_of(pid) == self.container)
        return next((identify(pid) for pid in pids if pid_inside(pid) == inside), None)

    @property
    def is_alive(self) -> bool:
        return identify(self.process.pid) == self.process


@pytest.fixture(scope="module")
def neighbour(instance: Instance) -> Leaver:
    """Another session of the same container, and its process that left its tree."""
    return Leaver(instance, "daemon")


def orphans_of(instance: Instance, session_id: str) -> list[dict[str, Any]]:
    return [orphan for orphan in orphans(instance) if orphan["session_id"] == session_id]


@pytest.mark.parametrize("way", kill_ways())
def test_kill_ends_what_left_the_process_tree_in_a_container(
    instance: Instance, neighbour: Leaver, way: str
) -> None:
    leaver = Leaver(instance, way)
    assert leaver.container == neighbour.container
    assert instance.sm("kill", leaver.session_id).startswith("Killed")
    assert not leaver.is_alive
    assert orphans(instance) == []
    assert neighbour.is_alive
    assert identify(neighbour.agent_pid) is not None


@pytest.mark.parametrize("way", ["daemon", "stop", "other_program"])
def test_crash_lists_what_left_the_process_tree_in_a_container(
    instance: Instance, neighbour: Leaver, way: str
) -> None:
    leaver = Leaver(instance, way)
    os.kill(leaver.agent_pid, signal.SIGKILL)
    instance.ended(leaver.session_id)
    found = orphans_of(instance, leaver.session_id)
    assert leaver.process.pid in {orphan["pid"] for orphan in found}
    assert all(orphan["age_s"] >= 0 and orphan["memory_bytes"] > 0 for orphan in found)
    shown = f"pid {leaver.process.pid} of "
    assert shown in instance.sm("status")
    assert shown in instance.sm("ls", "-a")
    assert f"Ended {shown}" in instance.sm("kill", "--orphans")
    assert not leaver.is_alive
    assert orphans(instance) == []
    assert "Orphans:      0\n" in instance.sm("status")
    assert neighbour.is_alive


def test_next_daemon_finds_what_an_agent_left_behind_in_a_container(
    instance: Instance, neighbour: Leaver
) -> None:
    leaver = Leaver(instance, "daemon")
    instance.kill_daemon()
    os.kill(leaver.agent_pid, signal.SIGKILL)
    instance.start_daemon()
    instance.ended(leaver.session_id)
    assert leaver.process.pid in {orphan["pid"] for orphan in orphans_of(instance, leaver.session_id)}
    assert instance.sm("kill", leaver.session_id).startswith("Killed")
    assert not leaver.is_alive
    assert neighbour.is_alive


@pytest.mark.parametrize("way", ["daemon", "double_fork", "nested_shells", "cron"])
def test_kill_ends_what_left_the_process_tree_as_soon_as_its_agent_ran(instance: Instance, way: str) -> None:
    leaver = Leaver(instance, way, at_once=True)
    instance.sm("kill", leaver.session_id)
    assert not leaver.is_alive


def test_kill_ends_no_process_of_sessions_that_start_at_the_same_time(instance: Instance) -> None:
    with ThreadPoolExecutor(6) as pool:
        leavers = list(pool.map(lambda _: Leaver(instance, "daemon", at_once=True), range(6)))
    for leaver in leavers[:3]:
        instance.sm("kill", leaver.session_id)
    assert all(leaver.is_alive for leaver in leavers[3:])
