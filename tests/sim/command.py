"""The command `sm` in the process of the test: the real code, with a connection in memory."""

import importlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from sm.cli import start_daemon
from sm.cli.display.errors import print_error
from sm.cli.group import run
from sm.core.models import Exit
from tests.sim.blocking import BlockingSockets, drive
from tests.sim.world import World


class _Stream(io.TextIOWrapper):
    """Keeps what is written to it, also after a close."""

    def __init__(self, content: bytes = b"") -> None:
        self.bytes = io.BytesIO(content)
        super().__init__(self.bytes, encoding="utf-8", errors="surrogateescape", write_through=True)

    def close(self) -> None:
        self.flush()


class Command:
    """Runs `sm` as a process of the operator or of a session."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._sockets = BlockingSockets(world.loop, world.board, world.shell.pid)

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Let sm.client connect to the daemons of the world, and start them, while the context is open."""
        world = self._world

        def launch(*_: object) -> None:
            drive(world.loop, world.start())

        with (
            mock.patch("sm.client.connection._socket", self._sockets),
            mock.patch.object(start_daemon, "launch", launch),
        ):
            yield

    def run(
        self, arguments: Sequence[str], environ: Mapping[str, str], cwd: Path, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the command to its end."""
        world, output, errors = self._world, _Stream(), _Stream()
        if arguments and not arguments[0].startswith("-"):
            self._load(arguments[0])
        process = world.kernel.start(("sm", *arguments), environ, str(cwd), parent=world.shell.pid)
        outside, self._sockets.pid, before = self._sockets.pid, process.pid, os.getcwd()
        try:
            os.chdir(cwd)
            with (
                mock.patch.dict(os.environ, environ, clear=True),
                mock.patch.object(sys, "argv", ["sm", *arguments]),
                mock.patch.object(sys, "stdin", _Stream((stdin or "").encode())),
                mock.patch.object(sys, "stdout", output),
                mock.patch.object(sys, "stderr", errors),
            ):
                try:
                    code = run(list(arguments))
                except SystemExit as end:
                    code = end.code if isinstance(end.code, int) else 1
                except BaseException as error:  # as `sm.cli.main`
                    if isinstance(error, AssertionError):
                        raise  # of the simulation
                    code = print_error(error)
        finally:
            os.chdir(before)
            self._sockets.pid = outside
            world.kernel.end(process, Exit(0))
            world.kernel.reap(process)
        written = (stream.bytes.getvalue().decode(errors="replace") for stream in (output, errors))
        return subprocess.CompletedProcess(["sm", *arguments], code, *written)

    def _load(self, name: str) -> None:
        """Import the command first: its modules get the clocks of the simulation."""
        try:
            importlib.import_module(f"sm.cli.commands.{name}")
        except ModuleNotFoundError:
            return
        self._world.modules.cover()
