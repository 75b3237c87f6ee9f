"""Programs that a played command runs and waits for, without a process."""

import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sm.linux import process_groups
from tests.sim.guards import is_plain
from tests.sim.replacing import replaced

Completed = subprocess.CompletedProcess[str]
Tool = Callable[[Sequence[str]], tuple[int, str]]
"""The code of a program: takes its argv, and returns its exit code and its output."""

_run = subprocess.run


class Tools:
    """Every program that is installed, by its path. The file at the path lets `shutil.which` find the program."""

    def __init__(self) -> None:
        self.installed: dict[str, Tool] = {}
        self.calls: list[tuple[str, ...]] = []
        """The argv of each program that ran, with its path."""

    def run(self, argv: Sequence[str], **more: Any) -> "subprocess.CompletedProcess[Any]":
        """As `subprocess.run`. Raises FileNotFoundError."""
        if is_plain(argv):
            return _run(argv, **more)
        path = shutil.which(argv[0])
        if path is None or path not in self.installed:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), argv[0])
        self.calls.append((path, *argv[1:]))
        code, output = self.installed[path](argv)
        return subprocess.CompletedProcess(argv, code, output, "")

    @contextmanager
    def replaced(self) -> Iterator[None]:
        with replaced((subprocess, "run", self.run), (process_groups, "run_in_group", self.run)):
            yield
