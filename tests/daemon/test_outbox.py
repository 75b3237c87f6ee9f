"""What a session's process has left behind is known by its mark, and by nothing that others need."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace

import pytest

from sm.core.models import Exit, Process
from sm.daemon.outbox import left_behind
from sm.linux import processes
from tests import samples

pytestmark = pytest.mark.processes

ID, OTHER = "1a2b3c4d", "5e6f7a8b"


def identified(pid: int) -> Process:
    found = processes.identify(pid)
    assert found is not None
    return found


@pytest.fixture
def old() -> Iterator[Process]:
    with subprocess.Popen(["sleep", "1000"]) as child:
        yield identified(child.pid)
        child.kill()


@pytest.fixture
def left(old: Process) -> Iterator[tuple[Process, Process]]:
    """A shell with the mark, out of every tree of the session, and what it has started."""
    shell = subprocess.Popen(
        ["sh", "-c", "sleep 1000 & echo $!; wait"],
        env={"PATH": "/usr/bin:/bin", "SM_SESSION_ID": ID},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with shell:
        assert shell.stdout is not None
        below = identified(int(shell.stdout.readline()))
        yield identified(shell.pid), below
        processes.signal_process(below, 9)
        shell.kill()


def test_what_carries_the_mark_is_found_wherever_it_went(old: Process, left: tuple[Process, Process]) -> None:
    assert set(left_behind(ID, old, {})) == set(left)
    assert left_behind(OTHER, old, {}) == []


def test_what_is_older_or_of_another_boot_is_none_of_its(old: Process, left: tuple[Process, Process]) -> None:
    boot, _, ticks = left[1].started.partition("/")
    assert left_behind(ID, Process(1, f"{boot}/{int(ticks) + 1}"), {}) == []
    assert left_behind(ID, Process(old.pid, f"another/{ticks}"), {}) == []


def test_what_another_sessions_agent_runs_below_is_spared(
    old: Process, left: tuple[Process, Process]
) -> None:
    """A terminal server that the old agent has started, for one: with it all other sessions would end."""
    shell, below = left
    other = replace(samples.session(OTHER), process=below)
    assert left_behind(ID, old, {OTHER: other}) == []
    ended = replace(other, exit=Exit(0))
    assert set(left_behind(ID, old, {OTHER: ended})) == {shell, below}
