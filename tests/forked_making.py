"""The process that makes worktrees, forked: `python -m tests.forked_making [CHANGES]`, and its start.

A new process spends 100 ms of a core on its imports, and a test with a worktree needs two or three. The tests of
tests/integration have the process that the daemon starts.
"""

import functools
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from sm.capabilities.worktrees import maker
from sm.capabilities.worktrees.making import __main__ as making
from tests.fork_server import ForkedProcess, fork_server
from tests.sim.replacing import replaced
from tests.work_loss.deaths import die_by_signal

_MODULE = "tests.forked_making"


class ForkedMaking:
    """As `subprocess.Popen` of the process, forked from one that has imported what it needs."""

    deaths: ClassVar[list[int | None]] = []
    """Before which change each of the next processes dies."""

    def __init__(self, argv: Sequence[str], *, env: Mapping[str, str], **_: Any) -> None:
        death = self.deaths.pop(0) if self.deaths else None
        died = [] if death is None else [str(death)]
        child_in, mine_out = os.pipe()
        mine_in, child_out = os.pipe()
        null = os.open(os.devnull, os.O_WRONLY)
        wanted = {"module": _MODULE, "argv": [_MODULE, *died], "environment": dict(env), "cwd": "/"}
        self._process: ForkedProcess = fork_server()._fork(wanted, [child_in, child_out, null])
        for descriptor in (child_in, child_out, null):
            os.close(descriptor)
        self.pid = self._process.pid
        self.stdin = os.fdopen(mine_out, "wb")
        self.stdout = os.fdopen(mine_in, "rb")

    def wait(self, timeout: float | None = None) -> int:
        if timeout is not None and not self._process.has_ended(timeout):
            raise subprocess.TimeoutExpired(_MODULE, timeout)
        return self._process.wait()


class ForkedMakings:
    """Stands for the module `subprocess` in the module that starts the process."""

    PIPE, DEVNULL, TimeoutExpired = subprocess.PIPE, subprocess.DEVNULL, subprocess.TimeoutExpired
    Popen = ForkedMaking


@functools.cache
def load_making() -> None:
    """Let the fork server import what the process needs. A simulation may not start the fork server."""
    fork_server().load(_MODULE)


@contextmanager
def forked_makings() -> Iterator[None]:
    """Let the daemons of this process fork theirs."""
    load_making()
    with replaced((maker, "subprocess", ForkedMakings)):
        yield


if __name__ == "__main__":
    os.setsid()  # the daemon kills its process group
    if sys.argv[1:]:
        die_by_signal(int(sys.argv[1]))
    making.main()
