"""A plain process in place of a terminal."""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from sm.linux.session_cgroups import Probe
from sm.sandboxes.seen_processes import SeenProcesses
from sm.sandboxes.session_processes import SessionProcesses


def without_cgroups() -> SessionProcesses:
    """`SessionProcesses` as where no cgroup can be made."""
    found = SessionProcesses("none", "/nowhere", dict, seen=SeenProcesses("/nowhere/seen"))
    found.__dict__["probed"] = Probe(None, "not in this test")
    return found


class Terminal:
    """Runs commands as a terminal does, and kills the remaining processes at the end."""

    def __init__(self, working_dir: Path, *, is_pty: bool = False) -> None:
        self._working_dir = working_dir
        self.is_pty = is_pty
        self._keyboards: list[int] = []
        self._children: list[subprocess.Popen[bytes]] = []
        self.environment = {
            "PATH": "/nonsense",
            "TERM": "sm-256color $x",
            "TMUX": "/tmp/x,1,0",
            "TMUX_PANE": "%1",
            "HOME": "/",
            "SECRET_OF_ANOTHER": "1",
            "A-B": "no shell name",
            "OLDPWD": "/var",
            "ENV": "/nothing",
            "BASH_ENV": "/nothing",
            "CDPATH": "/",
            "LONG": "two\nlines",
        }

    def open(self, argv: Sequence[str]) -> int:
        if self.is_pty:
            child = self._open_pty(argv)
        else:
            child = subprocess.Popen(
                argv,
                cwd=self._working_dir,
                env=self.environment,
                stdin=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        self._children.append(child)
        return child.pid

    def _open_pty(self, argv: Sequence[str]) -> "subprocess.Popen[bytes]":
        ours, theirs = os.openpty()
        self._keyboards.append(ours)
        try:
            return subprocess.Popen(
                argv,
                cwd=self._working_dir,
                env=self.environment,
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                start_new_session=True,
            )
        finally:
            os.close(theirs)

    def exit_code(self, pid: int | None = None) -> int:
        """Wait for the end of a process, or of the last one if None."""
        return next(child for child in reversed(self._children) if pid in (None, child.pid)).wait()

    async def exited(self, pid: int | None = None) -> int:
        """`exit_code` without blocking the loop."""
        return await asyncio.to_thread(self.exit_code, pid)

    def close(self) -> None:
        for child in self._children:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
        for keyboard in self._keyboards:
            os.close(keyboard)

    def type(self, keys: bytes) -> None:
        """Type keys on the last pseudo terminal."""
        os.write(self._keyboards[-1], keys)
