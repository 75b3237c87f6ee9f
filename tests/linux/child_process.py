"""Real child processes for tests of `sm.linux`."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from sm.core.models import Process
from sm.linux.processes import identify


class ChildProcess:
    """A real process that has reported it is ready; `printed` is its first line of output, in words."""

    starts_processes = True

    def __init__(self, *argv: str, **options: object) -> None:
        self.popen = subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.PIPE, **options)  # type: ignore[call-overload]
        self.pid: int = self.popen.pid
        self.printed: list[str] = self.popen.stdout.readline().decode().split()
        found = identify(self.pid)
        assert found is not None
        self.process: Process = found

    def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.popen.kill()
        self.popen.communicate()


Start = Callable[..., ChildProcess]


@pytest.fixture
def start() -> Iterator[Start]:
    children: list[ChildProcess] = []

    def start_child(*argv: str, **options: object) -> ChildProcess:
        children.append(ChildProcess(*argv, start_new_session=True, **options))
        return children[-1]

    yield start_child
    for child in children:
        child.stop()


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-u", "-c", code)


IDLE = ("sh", "-c", "echo ready; read -r line")
"""A process that prints a line and lives until its stdin closes."""
