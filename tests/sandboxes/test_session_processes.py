"""Processes of sessions outside of the process tree, found by their cgroup or their environment."""

import os
import secrets
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sm.core.models import Process
from sm.linux import process_endings, processes
from sm.linux.session_cgroups import Probe, SessionCgroup
from sm.sandboxes.seen_processes import SeenProcesses
from sm.sandboxes.session_processes import SessionProcesses
from tests.linux.child_process import IDLE, Start, start
from tests.waits import until

__all__ = ["start"]

pytestmark = pytest.mark.processes

# Not those of other tests, nor of this module in another worker: the search finds processes of the whole machine.
ID, OTHER = secrets.token_hex(4), secrets.token_hex(4)
LAUNCH = f"/nowhere/{secrets.token_hex(8)}/launch"
MARKS = {"SM_SESSION_ID": ID, "SM_TOKEN_FILE": f"{LAUNCH}/{ID}.token"}

Make = Callable[..., SessionProcesses]


def identified(pid: int) -> Process:
    process = processes.identify(pid)
    assert process is not None
    return process


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes `SessionProcesses` of the same instance. `cgroups` is False as where no cgroup can be made."""
    instance = secrets.token_hex(16)
    made: list[SessionProcesses] = []

    def make(agents: dict[str, Process] | None = None, *, cgroups: bool = False) -> SessionProcesses:
        seen = SeenProcesses(str(tmp_path / "seen"))
        found = SessionProcesses(instance, LAUNCH, lambda: agents or {}, seen=seen)
        if not cgroups:
            found.__dict__["probed"] = Probe(None, "not in this test")
        elif found.cgroups is None:
            pytest.skip(f"no cgroup can be made here: {found.probed.reason}")
        made.append(found)
        return found

    yield make
    for found in made:
        if found.cgroups is None:
            continue
        for cgroup in found.cgroups.all().values():
            for pid in cgroup.members():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            until(cgroup.remove, "an empty cgroup")
        with suppress(FileNotFoundError):
            os.rmdir(found.cgroups.base)


@pytest.fixture
def old() -> Iterator[Process]:
    with subprocess.Popen(["sleep", "1000"]) as child:
        yield identified(child.pid)
        child.kill()


@pytest.fixture
def left(old: Process) -> Iterator[tuple[Process, Process]]:
    """A shell with the marks of the session outside of its process tree, and its child."""
    shell = subprocess.Popen(
        ["sh", "-c", "sleep 1000 & echo $!; wait"],
        env={"PATH": "/usr/bin:/bin", **MARKS},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with shell:
        assert shell.stdout is not None
        child_of_shell = identified(int(shell.stdout.readline()))
        yield identified(shell.pid), child_of_shell
        processes.signal_process(child_of_shell, 9)
        shell.kill()


def test_marked_processes_are_found_outside_the_process_tree(
    make: Make, old: Process, left: tuple[Process, Process]
) -> None:
    # A process in the middle of an execve has no environment.
    until(lambda: set(make().of(ID, old)) == set(left), "both processes are found")
    assert make().of(OTHER, old) == []


def test_marked_processes_of_another_instance_are_not_found(
    make: Make, old: Process, left: tuple[Process, Process]
) -> None:
    other = SessionProcesses("other", "/elsewhere", dict, seen=SeenProcesses("/nowhere/seen"))
    other.__dict__["probed"] = Probe(None, "not in this test")
    assert other.of(ID, old) == []


def test_older_processes_and_those_of_other_boots_are_not_found(
    make: Make, old: Process, left: tuple[Process, Process]
) -> None:
    boot, _, ticks = left[1].started.partition("/")
    assert make().of(ID, Process(1, f"{boot}/{int(ticks) + 1}")) == []
    assert make().of(ID, Process(old.pid, f"another/{ticks}")) == []


def test_processes_that_run_another_live_session_are_spared(
    make: Make, old: Process, left: tuple[Process, Process]
) -> None:
    """The ended agent may have started the terminal server, and with it all other sessions."""
    shell, child_of_shell = left
    assert make({OTHER: child_of_shell}).of(ID, old) == []
    until(lambda: set(make({ID: child_of_shell}).of(ID, old)) == {shell, child_of_shell}, "both are found")


async def test_cgroup_has_what_left_the_tree_and_dropped_its_environment(make: Make, start: Start) -> None:
    agent = start(*IDLE)
    found = make(cgroups=True)
    assert found.enter(ID, agent.process)
    assert found.enter(ID, agent.process)
    stray = start("env", "-i", *IDLE)
    assert stray.process not in found.of(ID, agent.process)
    assert found.cgroups is not None
    found.cgroups.of(ID).enter(stray.pid)
    assert set(found.of(ID, agent.process)) == {agent.process, stray.process}
    assert set(make(cgroups=True).of(ID, agent.process)) == {agent.process, stray.process}  # the next daemon
    assert await found.kill_cgroup(ID) == []
    assert not processes.is_alive(stray.process)
    assert not processes.is_alive(agent.process)
    assert found.cgroups.all() == {}


def test_what_an_agent_starts_before_it_enters_its_cgroup_enters_too(make: Make, start: Start) -> None:
    agent = start("sh", "-c", "env -i sleep 1000 & echo $!; wait")
    child = identified(int(agent.printed[0]))
    marked = start(*IDLE, env={"PATH": os.environ["PATH"], **MARKS})
    found = make(cgroups=True)
    assert found.enter(ID, agent.process)
    assert found.cgroups is not None
    assert {child, marked.process, agent.process} <= set(found.cgroups.of(ID).processes())


def test_agent_that_is_gone_enters_no_cgroup(make: Make, old: Process) -> None:
    found = make(cgroups=True)
    assert not found.enter(ID, Process(old.pid, "another/1"))
    assert found.cgroups is not None
    assert found.cgroups.all() == {}


async def test_kill_of_a_cgroup_spares_a_terminal_server_of_other_agents(make: Make, start: Start) -> None:
    agent = start(*IDLE)
    server = start("sh", "-c", "sleep 1000 & echo $!; sleep 1000 & echo $!; wait")
    other_agent = identified(int(server.printed[0]))
    found = make({OTHER: other_agent}, cgroups=True)
    assert found.enter(ID, agent.process)
    assert found.cgroups is not None
    for pid in processes.descendants([server.pid]) | {server.pid}:
        found.cgroups.of(ID).enter(pid)
    assert found.of(ID, agent.process) == [agent.process]
    assert await found.kill_cgroup(ID) == []
    assert not processes.is_alive(agent.process)
    assert processes.is_alive(server.process)
    assert processes.is_alive(other_agent)


async def test_end_of_leftovers_spares_the_process_of_a_session_that_is_restored_meanwhile(
    make: Make, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents: dict[str, Process] = {}
    found = make(agents, cgroups=True)
    restored = start(*IDLE)
    members = SessionCgroup.members

    def members_of_restored(cgroup: SessionCgroup) -> list[int]:
        if not agents:  # the session had ended until now
            agents[ID] = restored.process
            assert found.enter(ID, restored.process)
        return members(cgroup)

    assert found.cgroups is not None
    found.cgroups.create(ID)

    async def end_tree(*_: object, **__: object) -> list[Process]:
        return []  # what forks faster than it is seen is left in the cgroup

    monkeypatch.setattr(process_endings, "end_tree", end_tree)
    monkeypatch.setattr(SessionCgroup, "members", members_of_restored)
    assert await found.end_left_behind(ID, 0.0, force=True) == []
    assert agents
    assert processes.is_alive(restored.process)
    assert found.cgroups.of(ID).has(restored.pid)


async def test_end_of_leftovers_spares_what_a_restored_session_starts_after_the_look(
    make: Make, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    restored = start(*IDLE)
    agents: dict[str, Process] = {ID: restored.process}
    found = make(agents, cgroups=True)
    members = SessionCgroup.members
    looks = 0

    def members_before_the_entry(cgroup: SessionCgroup) -> list[int]:
        nonlocal looks
        looks += 1
        seen = members(cgroup)
        if looks == 1:
            cgroup.enter(restored.pid)
        return seen

    assert found.cgroups is not None
    found.cgroups.create(ID)
    monkeypatch.setattr(SessionCgroup, "members", members_before_the_entry)
    assert await found.kill_cgroup(ID, ended=True) == []
    assert looks > 1
    assert processes.is_alive(restored.process)


def test_cgroup_that_waits_for_its_agent_is_not_removed_by_a_look(make: Make, start: Start) -> None:
    """The session is not stored yet while its start is prepared."""
    found = make(cgroups=True)
    (line,) = found.open(ID)
    assert found.left_behind() == {}
    child = start("sh", "-c", f"{line}\necho ready\nread -r line")
    assert found.cgroup(ID).has(child.pid)  # type: ignore[union-attr]
    assert found.session_of(child.pid) == ID


def test_cgroup_of_a_start_that_failed_is_removed(make: Make) -> None:
    found = make(cgroups=True)
    found.open(ID)
    found.forget(ID)
    assert not found.cgroup(ID).exists()  # type: ignore[union-attr]
    found.forget(ID)


def test_next_agent_runs_in_a_cgroup_that_was_frozen_for_the_last_one(make: Make) -> None:
    found = make(cgroups=True)
    found.open(ID)
    found.cgroup(ID).freeze()  # type: ignore[union-attr]
    (line,) = found.open(ID)
    done = subprocess.run(["sh", "-c", f"{line}\necho ready"], capture_output=True, check=True, timeout=60)
    assert done.stdout == b"ready\n"


def test_no_script_line_without_cgroups(make: Make) -> None:
    found = make()
    assert found.open(ID) == ()
    found.forget(ID)


def test_what_was_seen_in_the_tree_is_found_when_it_has_left_the_tree(make: Make, start: Start) -> None:
    """Without a cgroup, with another environment, in a kernel session of its own."""
    agent = start("sh", "-c", "env -i setsid sleep 1000 & echo $!; wait")
    child = identified(int(agent.printed[0]))
    agents: dict[str, Process] = {ID: agent.process}
    found = make(agents)
    found.look()
    os.kill(agent.pid, signal.SIGKILL)
    agent.popen.wait()
    assert found.of(ID, agent.process) == [child]
    agents[OTHER] = agents.pop(ID)
    assert found.left_behind() == {ID: [child]}
    found.look()
    found.look()
    assert make(agents).left_behind() == {ID: [child]}  # the next daemon
    os.kill(child.pid, signal.SIGKILL)
    until(lambda: not processes.is_alive(child), "the end of the child")
    assert found.left_behind() == {}


def test_an_agent_with_a_cgroup_is_not_looked_at(make: Make, start: Start) -> None:
    agent = start("sh", "-c", "env -i setsid sleep 1000 & echo $!; wait")
    child = identified(int(agent.printed[0]))
    found = make({ID: agent.process}, cgroups=True)
    assert found.enter(ID, agent.process)
    found.look()
    assert found._seen.all() == {}
    os.kill(child.pid, signal.SIGKILL)


def test_an_agent_that_could_not_enter_its_cgroup_is_looked_at(make: Make, start: Start) -> None:
    """As after a login by SSH with systemd: the daemon can make cgroups, and the kernel lets no agent enter."""
    agent = start("sh", "-c", "env -i setsid sleep 1000 & echo $!; wait")
    child = identified(int(agent.printed[0]))
    found = make({ID: agent.process}, cgroups=True)
    found.look()
    assert found.of(ID, agent.process) == [child]
    os.kill(child.pid, signal.SIGKILL)
