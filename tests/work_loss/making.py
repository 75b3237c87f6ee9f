"""The process that makes worktrees, which can die: `python -m tests.work_loss.making [CHANGES]`, and its start."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from sm.capabilities.worktrees.making import __main__ as making
from tests.fork_server import ForkedProcess, fork_server
from tests.work_loss.deaths import die_by_signal

_MODULE = "tests.work_loss.making"


class ForkedMaking:
    """As `subprocess.Popen` of the process, forked from one that has imported what it needs: 100 ms less."""

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
        return self._process.wait()


class ForkedMakings:
    """Stands for the module `subprocess` in the module that starts the process."""

    PIPE, DEVNULL, TimeoutExpired = subprocess.PIPE, subprocess.DEVNULL, subprocess.TimeoutExpired
    Popen = ForkedMaking


if __name__ == "__main__":
    if sys.argv[1:]:
        die_by_signal(int(sys.argv[1]))
    making.main()
