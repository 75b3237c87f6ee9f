"""Processes that an ended agent left behind are found by SM_SESSION_ID in their environment."""

import secrets
import subprocess
from collections.abc import Iterator
from dataclasses import replace

import pytest

from sm.core.models import Exit, Process
from sm.daemon.outbox import find_orphans
from sm.linux import processes
from tests import samples

pytestmark = pytest.mark.processes

# Not the ids of other tests: the search finds the processes of tests that run in parallel.
ID, OTHER = secrets.token_hex(4), secrets.token_hex(4)


def identified(pid: int) -> Process:
    process = processes.identify(pid)
    assert process is not None
    return process


@pytest.fixture
def old() -> Iterator[Process]:
    with subprocess.Popen(["sleep", "1000"]) as child:
        yield identified(child.pid)
        child.kill()


@pytest.fixture
def left(old: Process) -> Iterator[tuple[Process, Process]]:
    """A shell with SM_SESSION_ID outside of the process tree of the session, and its child."""
    shell = subprocess.Popen(
        ["sh", "-c", "sleep 1000 & echo $!; wait"],
        env={"PATH": "/usr/bin:/bin", "SM_SESSION_ID": ID},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with shell:
        assert shell.stdout is not None
        child_of_shell = identified(int(shell.stdout.readline()))
        yield identified(shell.pid), child_of_shell
        processes.signal_process(child_of_shell, 9)
        shell.kill()


def test_left_behind_finds_processes_by_session_id_outside_the_process_tree(
    old: Process, left: tuple[Process, Process]
) -> None:
    assert set(find_orphans(ID, old, {})) == set(left)
    assert find_orphans(OTHER, old, {}) == []


def test_left_behind_ignores_older_processes_and_other_boots(
    old: Process, left: tuple[Process, Process]
) -> None:
    boot, _, ticks = left[1].started.partition("/")
    assert find_orphans(ID, Process(1, f"{boot}/{int(ticks) + 1}"), {}) == []
    assert find_orphans(ID, Process(old.pid, f"another/{ticks}"), {}) == []


def test_left_behind_spares_processes_that_run_another_live_session(
    old: Process, left: tuple[Process, Process]
) -> None:
    """The ended agent may have started the terminal server, and with it all other sessions."""
    shell, child_of_shell = left
    other = replace(samples.session(OTHER), process=child_of_shell)
    assert find_orphans(ID, old, {OTHER: other}) == []
    ended = replace(other, exit=Exit(0))
    assert set(find_orphans(ID, old, {OTHER: ended})) == {shell, child_of_shell}
