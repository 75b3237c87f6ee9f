"""Processes that left the process tree of their agent: a kill ends them, and every other ending lists them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sm.linux.processes import identify
from sm.linux.session_cgroups import probe
from tests.instance import Instance, until

# Each is a way to leave the tree of the agent. The shell runs it in the agent, and the process that is left writes its
# pid to $OUT. All of them drop the environment, so that only the cgroup finds them.
LEAVES = "env -i setsid sh -c 'cd /; (exec sleep 1000) & echo $! >'$OUT'; exit'"


@pytest.fixture(scope="module")
def instance() -> Iterator[Instance]:
    found = probe("00000000")
    if found.cgroups is None:
        pytest.skip(f"no cgroup can be made here: {found.reason}")
    found.cgroups.close()
    with Instance("limits: {max_per_workspace: 10000}") as instance:
        yield instance


def left_pid(out: Path) -> int:
    return until(lambda: int(out.read_text() or 0), "the process that is left")


def test_kill_ends_what_left_the_process_tree(instance: Instance) -> None:
    out = instance.work / "double-fork"
    session = instance.spawn("Sh", f"OUT={out}; sleep 0.1; {LEAVES}; exec sleep 1000")
    pid = left_pid(out)
    left = identify(pid)
    assert left is not None
    assert instance.sm("kill", session["session_id"]).startswith("Killed")
    assert identify(pid) != left
