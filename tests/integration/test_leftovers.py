"""Processes that left the process tree of their agent: a kill ends them, and every other ending lists them.

Most of the ways to leave the tree also drop the environment, so that only the cgroup of the session finds the process.
"""

import json
import os
import secrets
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sm.linux.processes import identify
from sm.linux.session_cgroups import probe
from tests.instance import Instance, until
from tests.integration.leavers import WAYS, Leaver


@pytest.fixture(scope="module")
def instance() -> Iterator[Instance]:
    found = probe("00000000")
    if found.cgroups is None:
        pytest.skip(f"no cgroup can be made here: {found.reason}")
    found.cgroups.close()
    with Instance("limits: {max_per_workspace: 10000}") as instance:
        yield instance


@pytest.mark.parametrize("way", WAYS)
def test_kill_ends_what_left_the_process_tree(instance: Instance, way: str) -> None:
    leaver = Leaver(instance, way)
    assert instance.sm("kill", leaver.session_id).startswith("Killed")
    assert identify(leaver.process.pid) != leaver.process
    assert leaver.session_id not in {o["session_id"] for o in orphans(instance)}


@pytest.mark.parametrize("way", ["daemon", "terminal_server", "stop", "thread_of_a_dead_leader"])
def test_crash_lists_what_left_the_process_tree_until_it_is_ended(instance: Instance, way: str) -> None:
    leaver = Leaver(instance, way)
    os.kill(leaver.session["pid"], signal.SIGKILL)
    instance.ended(leaver.session_id)
    found = [o for o in orphans(instance) if o["session_id"] == leaver.session_id]
    assert leaver.process.pid in {o["pid"] for o in found}
    assert all(o["age_s"] >= 0 and o["command"] for o in found)
    if way != "thread_of_a_dead_leader":  # the kernel counts no memory for it
        assert all(o["memory_bytes"] > 0 for o in found)
    shown = f"pid {leaver.process.pid} of "
    assert shown in instance.sm("status")
    assert shown in instance.sm("ls", "-a")
    listed = {s["session_id"]: s for s in instance.json("ls", "-a")}
    assert {o["pid"] for o in listed[leaver.session_id]["orphan_processes"]} == {o["pid"] for o in found}
    assert f"Ended {shown}" in instance.sm("kill", "--orphans")
    assert identify(leaver.process.pid) != leaver.process
    assert orphans(instance) == []
    assert "Orphans:      0\n" in instance.sm("status")


def test_kill_of_orphans_by_an_agent_says_which_are_not_below_it(instance: Instance) -> None:
    agent = instance.as_session(instance.spawn("Sh", "exec sleep 1000000")["session_id"])
    leaver = Leaver(instance, "daemon")
    os.kill(leaver.session["pid"], signal.SIGKILL)
    instance.ended(leaver.session_id)
    said = instance.refused("kill", "--orphans", "--yes", exit_code=5, env=agent)
    assert f"process {leaver.process.pid} was not ended" in said
    assert identify(leaver.process.pid) == leaver.process
    assert "Ended" in instance.sm("kill", "--orphans", "--yes")
    assert instance.sm("kill", "--orphans", "--yes", env=agent) == ""


def test_next_daemon_finds_what_an_agent_left_behind(instance: Instance) -> None:
    leaver = Leaver(instance, "daemon")
    instance.kill_daemon()
    os.kill(leaver.session["pid"], signal.SIGKILL)
    instance.start_daemon()
    instance.ended(leaver.session_id)
    assert leaver.process.pid in {o["pid"] for o in orphans(instance)}
    assert instance.sm("kill", leaver.session_id).startswith("Killed")
    assert identify(leaver.process.pid) != leaver.process
    assert "already ended" in instance.refused("kill", leaver.session_id, exit_code=4)


@pytest.mark.parametrize(
    "point",
    [
        "ProcessEnds.process_ended after 1",
        "EffectRecord.mark_finished before 1",
        "EffectRecord.mark_finished before 2",
    ],
)
def test_daemon_that_dies_after_an_end_warns_once_of_what_was_left(point: str) -> None:
    with Instance() as instance:
        daemon = instance.start_daemon(point)
        leaver = Leaver(instance, "daemon")
        os.kill(leaver.session["pid"], signal.SIGKILL)
        daemon.wait()
        instance.start_daemon()
        instance.ended(leaver.session_id)
        until(lambda: warnings_of(instance, leaver), "the warning")
        instance.restart_daemon()
        assert [f"{leaver.process.pid} (" in warning for warning in warnings_of(instance, leaver)] == [True]
        instance.sm("kill", "--orphans", "--yes")


def test_kill_ends_no_process_of_another_session(instance: Instance) -> None:
    other = instance.spawn("Sh", "setsid sleep 1000000 & exec sleep 1000000")
    leaver = Leaver(instance, "double_fork")
    instance.sm("kill", leaver.session_id)
    assert identify(other["pid"]) is not None
    assert instance.session(other["session_id"])["status"] == "running"
    instance.sm("kill", other["session_id"])


@pytest.mark.parametrize("ended", [False, True], ids=["running", "ended"])
def test_process_without_other_marks_than_its_cgroup_is_not_the_operator(
    instance: Instance, ended: bool
) -> None:
    out = instance.work / f"me-{secrets.token_hex(4)}"
    go, gate = f"{out}.go", f"{out}.gate"
    os.mkfifo(go)
    os.mkfifo(gate)  # the agent leaves the tree once its cgroup is known to hold it
    ask = f"until read -r go <{go}; do :; done; sm me >{out} 2>&1; echo exit $? >>{out}"
    bare = f'env -i PATH="$PATH" HOME={instance.home} SM_HOME={instance.home} LANG=C.UTF-8'
    leave = f"{bare} setsid --fork sh -c '{ask}' </dev/null"
    session = instance.spawn("Sh", f"read -r go <{gate}; {leave}; exec sleep 1000000")
    session_id = session["session_id"]
    until(lambda: f"/{session_id}" in Path(f"/proc/{session['pid']}/cgroup").read_text(), "cgroup")
    Path(gate).write_text("go\n")
    until(lambda: is_open_for_reading(go), "the process that left the tree")
    if ended:
        os.kill(session["pid"], signal.SIGKILL)
        instance.ended(session_id)
    Path(go).write_text("go\n")
    until(partial(has_line, out, "exit "), "sm has answered")
    assert f"only its cgroup names session {session_id}" in out.read_text()
    assert "exit 5" in out.read_text()
    if not ended:
        instance.sm("kill", session_id)


def test_first_command_of_an_agent_cannot_leave_before_its_cgroup_is_entered(instance: Instance) -> None:
    """The agent's first act is to leave its tree, its terminal and its environment, ten times."""
    for _ in range(10):
        out = instance.work / f"first-{secrets.token_hex(4)}"
        bare = f'env -i PATH="$PATH" HOME={instance.home} SM_HOME={instance.home} LANG=C.UTF-8'
        ask = f"cat /proc/self/cgroup >{out}.cgroup; sm me >{out} 2>&1; echo exit $? >>{out}"
        session = instance.spawn("Sh", f"{bare} setsid --fork sh -c '{ask}' </dev/null; exec sleep 1000000")
        session_id = session["session_id"]
        until(partial(has_line, out, "exit "), "sm has answered")
        assert f"/{session_id}" in Path(f"{out}.cgroup").read_text()
        assert f"only its cgroup names session {session_id}" in out.read_text()
        instance.sm("kill", session_id, "--force")


def warnings_of(instance: Instance, leaver: Leaver) -> list[str]:
    return [e["message"] for e in instance.events(leaver.session_id, "--type", "warning")]


def has_line(file: Path, beginning: str) -> bool:
    return file.exists() and f"\n{beginning}" in "\n" + file.read_text()


def is_open_for_reading(fifo: str) -> bool:
    try:
        os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:  # ENXIO: nobody reads
        return False
    return True


def orphans(instance: Instance) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(instance.sm("status", "--json"))["orphan_processes"]
    return found
