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


class Started:
    """A real process that said it is ready; `said` is what it printed until then."""

    starts_processes = True

    def __init__(self, *argv: str, **options: object) -> None:
        self.popen = subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.PIPE, **options)  # type: ignore[call-overload]
        self.pid: int = self.popen.pid
        self.said: list[str] = self.popen.stdout.readline().decode().split()
        found = identify(self.pid)
        assert found is not None
        self.process: Process = found

    def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.popen.kill()
        self.popen.communicate()


@pytest.fixture
def start() -> Iterator[Callable[..., Started]]:
    started: list[Started] = []

    def one(*argv: str, **options: object) -> Started:
        started.append(Started(*argv, start_new_session=True, **options))
        return started[-1]

    yield one
    for each in started:
        each.stop()


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-u", "-c", code)


IDLE = ("sh", "-c", "echo ready; read -r line")
"""Prints a line and waits for one: a process that lives until its stdin closes."""
