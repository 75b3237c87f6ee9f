"""The command `sm` in the process of the test: the real code, with a connection in memory."""

import asyncio
import errno
import io
import os
import subprocess
import sys
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TextIO

from click.globals import _local as click_contexts
from greenlet import GreenletExit  # type: ignore[import-untyped]

from sm.cli import flush_stdout, start_daemon
from sm.cli.display.errors import print_error
from sm.cli.group import load_command, run
from sm.client import connection
from sm.client.connection import HttpConnection
from sm.core.models import Exit
from sm.paths import InstancePaths
from tests.sim.blocking import BlockingSockets, Interruption, drive, run_blocking, run_blocking_on_loop
from tests.sim.containers import PlayedContainer
from tests.sim.processes import PlayedProcess
from tests.sim.replacing import encoded, environment, replaced
from tests.sim.tools import Tools
from tests.sim.waiting import wait_for_bytes
from tests.sim.world import World

Completed = subprocess.CompletedProcess[str]
_END_OF_INPUT = "\x04"
"""Ctrl-D."""


@cache
def _open_file() -> int:
    """Return a descriptor that nobody closes, for code that waits for the end of a reader."""
    return os.memfd_create("stream", os.MFD_CLOEXEC)


class _Stream(io.TextIOWrapper):
    """Keeps what is written to it, also after a close."""

    def __init__(self, content: bytes = b"", *, is_terminal: bool = False) -> None:
        self.bytes = io.BytesIO(content)
        self._is_terminal = is_terminal
        super().__init__(self.bytes, encoding="utf-8", errors="surrogateescape", write_through=True)

    def isatty(self) -> bool:
        return self._is_terminal

    def close(self) -> None:
        self.flush()

    def fileno(self) -> int:
        return _open_file()

    @property
    def text(self) -> str:
        return self.bytes.getvalue().decode(errors="replace")


class Streams:
    """The standard streams of a command: files. `stdout`: a real file, whose content is not looked at."""

    def __init__(self, stdin: str | bytes | None = None, stdout: TextIO | None = None) -> None:
        self.stdin = _Stream(stdin.encode() if isinstance(stdin, str) else stdin or b"")
        self.stdout: TextIO | None = stdout or _Stream()
        self.stderr: TextIO | None = _Stream()

    @property
    def texts(self) -> tuple[str, str]:
        """The content of stdout and stderr."""
        out, err = (file.text if isinstance(file, _Stream) else "" for file in (self.stdout, self.stderr))
        return out, err

    def size(self, fd: int = 1) -> os.terminal_size:
        raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))


class ClosedStreams(Streams):
    """The streams of a command that was started with `redirection`, such as `>&- 2>&-`."""

    def __init__(self, redirection: str) -> None:
        super().__init__()
        closed = redirection.split()
        if ">&-" in closed:
            self.stdout = None
        if "2>&-" in closed:
            self.stderr = None


class Terminal(Streams):
    """A terminal of this width, with `typed` as its input, for all streams of a command."""

    def __init__(self, typed: str, width: int) -> None:
        super().__init__()
        self.stdin = _Stream(typed.partition(_END_OF_INPUT)[0].encode(), is_terminal=True)
        self.stdout = self.stderr = _Stream(is_terminal=True)
        self._size = os.terminal_size((width, 24))

    def size(self, fd: int = 1) -> os.terminal_size:
        return self._size


class RunningCommand:
    """One run of `sm`, as a process of its own. `parent`: the pid of the process that runs it."""

    def __init__(
        self,
        world: World,
        sockets: BlockingSockets,
        arguments: Sequence[str],
        environ: Mapping[str, str],
        cwd: Path,
        streams: Streams,
        parent: int,
    ) -> None:
        self._world = world
        self._sockets = sockets
        self._arguments = list(arguments)
        self._environ = encoded(environ)
        self._cwd = cwd
        self._streams = streams
        self._output = streams.stdout, streams.stderr
        self._contexts: dict[str, object] = {}
        self.program = "sm"
        """The path with which it was called."""
        # A process of an agent has its terminal, but for `sm mcp`, which talks to it through pipes. The tests run the
        # commands of the operator without a terminal.
        has_terminal = parent != world.shell.pid and "mcp" not in arguments[:1]
        tty = world.kernel.processes[parent].tty if has_terminal else None
        self.process: PlayedProcess = world.kernel.start(
            ("sm", *arguments), environ, str(cwd), parent=parent, tty=tty
        )
        place = self.process.place
        self._uid = place.uid if isinstance(place, PlayedContainer) else os.geteuid()

    @contextmanager
    def surroundings(self) -> Iterator[None]:
        """Make the surroundings of this process those of the code that runs now."""
        before, outside, contexts = os.getcwd(), self._sockets.pid, dict(vars(click_contexts))
        stdout, stderr = self._output
        try:
            os.chdir(self._cwd)
            self._sockets.pid = self.process.pid
            _replace(vars(click_contexts), self._contexts)
            with (
                environment(self._environ),
                replaced(
                    (sys, "argv", [self.program, *self._arguments]),
                    (sys, "stdin", self._streams.stdin),
                    (sys, "stdout", stdout),
                    (sys, "stderr", stderr),
                    (os, "get_terminal_size", self._streams.size),
                    (os, "geteuid", lambda: self._uid),
                ),
            ):
                try:
                    yield
                finally:  # the code may have replaced them
                    self._output = sys.stdout, sys.stderr
        finally:
            self._contexts = dict(vars(click_contexts))
            _replace(vars(click_contexts), contexts)
            self._sockets.pid = outside
            os.chdir(before)

    def code(self) -> Completed:
        try:
            code = run(self._arguments)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except (AssertionError, GreenletExit):
            raise  # of the simulation
        except KeyboardInterrupt:
            code = 130
        except BaseException as error:  # noqa: BLE001 - as `sm.cli.main`
            code = print_error(error)
        code = flush_stdout(code)
        return subprocess.CompletedProcess(["sm", *self._arguments], code, *self._streams.texts)

    def end(self) -> None:
        for given, file in zip((self._streams.stdout, self._streams.stderr), self._output, strict=True):
            if given is None and file is not None:
                file.close()  # what the code opened instead
        self._world.kernel.end(self.process, Exit(0))
        self._world.kernel.reap(self.process)


def _replace(values: dict[str, object], others: Mapping[str, object]) -> None:
    values.clear()
    values.update(others)


class StartedCommand:
    """A command that runs while the test goes on, as `subprocess.Popen`."""

    def __init__(self, world: World, task: "asyncio.Task[Completed]", interruption: Interruption) -> None:
        self._world = world
        self._task = task
        self.interrupt = interruption.interrupt

    @property
    def returncode(self) -> int | None:
        return self._task.result().returncode if self._task.done() else None

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self.communicate(timeout=timeout)
        return self._task.result().returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end, at most `timeout` virtual seconds. Returns its output and its errors."""

        async def wait() -> Completed:
            async with asyncio.timeout(timeout):
                return await asyncio.shield(self._task)

        ended = drive(self._world.loop, wait())
        return ended.stdout, ended.stderr

    def kill(self) -> None:
        self._task.cancel()


class Command:
    """Runs `sm` as a process of the operator or of a session."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sockets = BlockingSockets(world.loop, world.board, world.shell.pid)
        self._started: list[asyncio.Task[Completed]] = []
        self.tools = Tools()
        self.program = "sm"
        """The path with which the commands are called."""

    async def end(self) -> None:
        """End the commands that still run."""
        for task in self._started:
            task.cancel()
        await asyncio.gather(*self._started, return_exceptions=True)

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Let sm.client connect to the daemons of the world, and start them, while the context is open."""
        world = self.world

        def launch(paths: InstancePaths, environ: Mapping[str, str], *options: str) -> None:
            drive(world.loop, world.launch(new_database="--new" in options))

        with (
            replaced(
                (connection, "_socket", self.sockets),
                (start_daemon, "launch", launch),
                (HttpConnection, "_wait_for_bytes", wait_for_bytes(world.clocks.sleep, {})),
            ),
            self.tools.replaced(),
        ):
            yield

    def prepared(
        self,
        arguments: Sequence[str],
        environ: Mapping[str, str],
        cwd: Path,
        streams: Streams,
        parent: int | None,
    ) -> RunningCommand:
        """A process of the command, whose code has not begun."""
        if arguments and not arguments[0].startswith("-"):
            self._load(arguments[0])
        over = self.world.shell.pid if parent is None else parent
        command = RunningCommand(self.world, self.sockets, arguments, environ, cwd, streams, over)
        command.program = self.program
        return command

    def run(
        self,
        arguments: Sequence[str],
        environ: Mapping[str, str],
        cwd: Path,
        streams: Streams | None = None,
    ) -> Completed:
        """Run the command to its end."""
        command = self.prepared(arguments, environ, cwd, streams or Streams(), None)
        try:
            return run_blocking(self.world.loop, command.code, command.surroundings)
        finally:
            command.end()

    async def run_on_loop(
        self,
        arguments: Sequence[str],
        environ: Mapping[str, str],
        cwd: Path,
        parent: int | None = None,
        streams: Streams | None = None,
        interruption: Interruption | None = None,
    ) -> Completed:
        """Run the command while the world goes on."""
        command = self.prepared(arguments, environ, cwd, streams or Streams(), parent)
        try:
            return await run_blocking_on_loop(command.code, command.surroundings, interruption)
        finally:
            command.end()

    def start(
        self,
        arguments: Sequence[str],
        environ: Mapping[str, str],
        cwd: Path,
        streams: Streams | None = None,
    ) -> StartedCommand:
        interruption = Interruption()
        running = self.run_on_loop(arguments, environ, cwd, streams=streams, interruption=interruption)
        return self.begin(running, interruption)

    def begin(self, running: Coroutine[Any, Any, Completed], interruption: Interruption) -> StartedCommand:
        """Start what runs a command."""
        task = self.world.loop.create_task(running)
        self._started.append(task)
        return StartedCommand(self.world, task, interruption)

    def _load(self, name: str) -> None:
        """Import the command first: its modules get the clocks of the simulation."""
        try:
            load_command(name)
        except ModuleNotFoundError:
            return
        self.world.modules.cover()
