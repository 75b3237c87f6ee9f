"""Processes that left the tree of their agent where no cgroup can be made: those that sm finds, and the others.

The daemon runs in a mount namespace in which no cgroup hierarchy is mounted. docs/lifecycle.md quotes the output of the
first test: `pytest -s`.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from sm.core.models import Process
from sm.linux.processes import identify, process_tree, read_stat, signal_process
from tests.instance import Instance, until
from tests.integration.leavers import NEEDED, WAYS, Leaver
from tests.integration.test_leftovers import orphans

HIDDEN = ("unshare", "--mount", "sh", "-c", 'umount -a -l -t cgroup,cgroup2; exec "$0" -m sm.daemon "$@"')

NOT_FOUND_WITH_ENVIRONMENT = {"cron", "thread_of_a_dead_leader"}
"""cron gives a job an environment of its own. A process whose main thread has ended shows no environment."""
NOT_FOUND = NOT_FOUND_WITH_ENVIRONMENT | {
    *(
        "setsid",
        "daemon",
        "closed_files",
        "nested_shells",
        "other_program",
        "new_name",
        "other_user",
        "script",
    ),
    *("multiprocessing", "ignored_signals", "stop", "zombie_parent", "fifo", "terminal_server"),
    *("pid_namespace", "mount_namespace", "fork_storm"),
}
"""They left the kernel session of the agent, and dropped their environment."""


class Hidden(Instance):
    """An instance whose daemon sees no cgroups."""

    def run_hidden(self) -> "subprocess.Popen[bytes]":
        return self.run_daemon(*HIDDEN, sys.executable)


@pytest.fixture(scope="module")
def instance() -> Iterator[Hidden]:
    if os.getuid() or shutil.which("unshare") is None:
        pytest.skip("only root with unshare can hide the cgroups of this machine")
    with Hidden("limits: {max_per_workspace: 10000}") as instance:
        instance.run_hidden()
        yield instance


def possible() -> list[str]:
    return [way for way in WAYS if way not in NEEDED or shutil.which(NEEDED[way]) is not None]


def end(process: Process) -> None:
    """End what is left with its tree, and with the leader of its kernel session."""
    stat = read_stat(process.pid)
    leader = None if stat is None else identify(stat.kernel_session)
    for member in process_tree(process, *([] if leader is None else [leader])):
        with suppress(ProcessLookupError):
            signal_process(member, signal.SIGKILL)


@pytest.mark.parametrize(
    "drops_environment",
    [pytest.param(False, id="with environment"), pytest.param(True, id="env -i", marks=pytest.mark.full)],
)
def test_kill_ends_what_is_found_without_cgroups(instance: Hidden, drops_environment: bool) -> None:
    ways, missed = possible(), []
    for way in ways:
        leaver = Leaver(instance, way, drops_environment=drops_environment, in_cgroup=False)
        assert instance.sm("kill", leaver.session_id, "--force").startswith("Killed")
        if identify(leaver.process.pid) == leaver.process:
            missed.append(way)
            end(leaver.process)
    kind = "env -i" if drops_environment else "with environment"
    found = f"{len(ways) - len(missed)} of {len(ways)} found"
    sys.stdout.write(f"{kind}: {found}; not found: {', '.join(missed)}\n")
    # One of them may be found by chance, when it was seen in the tree.
    assert set(missed) <= (NOT_FOUND if drops_environment else NOT_FOUND_WITH_ENVIRONMENT)


def test_what_was_seen_in_the_tree_is_found_after_a_crash_also_by_the_next_daemon(instance: Hidden) -> None:
    """As a background shell of an agent, which leaves the tree when the agent crashes."""
    out = instance.work / "background"
    session = instance.spawn("Sh", f"env -i setsid sh -c 'echo $$ >{out}; exec sleep 1000000' & wait")
    pid = until(lambda: int(out.read_text() or 0) if out.exists() else 0, "the background shell")
    left = until(lambda: identify(pid), "the background shell")
    seen = instance.state / "seen-processes.json"
    until(lambda: seen.exists() and str(pid) in seen.read_text(), "the look at the tree")
    instance.kill_daemon()
    os.kill(session["pid"], signal.SIGKILL)
    instance.run_hidden()
    instance.ended(session["session_id"])
    assert pid in {orphan["pid"] for orphan in orphans(instance)}
    assert instance.sm("kill", "--orphans").startswith(f"Ended pid {pid} of ")
    assert identify(pid) != left
    assert orphans(instance) == []
