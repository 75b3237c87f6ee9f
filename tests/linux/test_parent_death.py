"""Children that end with their parent: with the real kernel."""

import os
import signal
import subprocess
import sys

import pytest

from sm.linux import processes
from tests.linux.child_process import Start, python
from tests.waits import until

pytestmark = pytest.mark.processes

ORPHAN = """
import os
from sm.linux.parent_death import die_with_parent

bind, parent = die_with_parent(), os.getpid()
if os.fork():
    os._exit(0)
while os.getppid() == parent:
    os.sched_yield()
bind()
print("lives on")
"""


def test_die_with_parent_ends_a_child_whose_parent_died_between_fork_and_bind() -> None:
    run = subprocess.run(
        [sys.executable, "-c", ORPHAN],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        check=True,
    )
    assert run.stdout == b"", "the output ends when the child does"


def test_die_with_parent_ends_a_child_when_its_parent_is_killed(start: Start) -> None:
    parent = start(
        *python(
            f"import subprocess, sys; sys.path[:0] = {sys.path!r}\n"
            "from sm.linux.parent_death import die_with_parent\n"
            "child = subprocess.Popen(['sleep', '1000'], preexec_fn=die_with_parent())\n"
            "print(child.pid, flush=True)\n"
            "sys.stdin.read()"
        )
    )
    child = processes.identify(int(parent.printed[0]))
    assert child is not None
    os.kill(parent.pid, signal.SIGKILL)
    until(lambda: not processes.is_alive(child), "the child has ended")
