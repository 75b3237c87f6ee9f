"""Processes `sm mcp` in the process of the test: the real code of the pump, with played threads and pipes.

A thread of the pump is a greenlet: it runs to its next wait, and the world goes on meanwhile.
"""

import asyncio
import os
import posix
import select
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from unittest import mock

from sm.cli.mcp import link, pump, unread
from tests.mcp.speech import Speech
from tests.sim.blocking import drive, run_blocking_on_loop
from tests.sim.command import Command, Streams
from tests.sim.loop import VirtualLoop
from tests.sim.processes import PlayedProcess
from tests.sim.stage import Instance
from tests.sim.world import World

_WITHIN_S = 120.0
"""Longer than the pump waits for a daemon."""
_running: "PumpProcess | None" = None
"""The process whose code runs."""
_tasks: "set[asyncio.Task[None]]" = set()
"""The code of all pumps that has not ended."""


def _current() -> "PumpProcess":
    assert _running is not None, "no pump runs"
    return _running


class _Lock:
    """A lock between the greenlets of a pump."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._is_held = False
        self._freed = asyncio.Event()

    def __enter__(self) -> None:
        while self._is_held:
            self._freed.clear()
            drive(self._loop, self._freed.wait())
        self._is_held = True

    def __exit__(self, *_: object) -> None:
        self._is_held = False
        self._freed.set()


class _Threads:
    """Stands for the module `_thread`."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def allocate_lock(self) -> _Lock:
        return _Lock(self._loop)

    def start_new_thread(self, code: Callable[[], None], _: tuple[()]) -> None:
        _current().begin(code)


class _Poll:
    """Stands for `select.poll`. A read waits by itself, and nothing waits for the reader of stdout."""

    def register(self, fd: int, mask: int) -> None:
        self._registered = fd, mask

    def poll(self, _: float | None = None) -> list[tuple[int, int]]:
        fd, mask = self._registered
        return [] if mask == select.POLLRDHUP and not _current().has_ended_input else [(fd, mask)]


class _Select:
    """Stands for the module `select`."""

    POLLIN, POLLOUT, POLLRDHUP = select.POLLIN, select.POLLOUT, select.POLLRDHUP
    poll = _Poll


class _Pipes:
    """Stands for the module `posix`: the standard streams are those of the pump that runs."""

    def __getattr__(self, name: str) -> Any:
        return getattr(posix, name)

    def urandom(self, size: int) -> bytes:
        return os.urandom(size)  # that of the simulation

    def read(self, fd: int, size: int) -> bytes:
        assert fd == 0
        return _current().take_input(size)

    def write(self, fd: int, data: bytes) -> int:
        _current().outputs[fd].feed_data(bytes(data))
        return len(data)


@contextmanager
def played_pumps(loop: VirtualLoop) -> Iterator[None]:
    """Let the code of `sm mcp` run in this process."""
    threads = _Threads(loop)
    with (
        mock.patch.object(pump, "_thread", threads),
        mock.patch.object(link, "_thread", threads),
        mock.patch.object(pump, "select", _Select),
        mock.patch.object(pump, "posix", _Pipes()),
        mock.patch.object(unread, "wait_for_reader", return_value=True),  # a client that reads at once
    ):
        try:
            yield
        finally:
            drive(loop, _end_all())


async def _end_all() -> None:
    tasks = tuple(_tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class PumpHost(Protocol):
    """The place of the processes: `Instance`."""

    @property
    def loop(self) -> VirtualLoop: ...
    @property
    def world(self) -> World: ...
    @property
    def command(self) -> Command: ...
    @property
    def home(self) -> Path: ...


class PumpProcess:
    """A process `sm mcp` with the environment and the parent of a command. Within `played_pumps`."""

    def __init__(self, instance: PumpHost, environ: Mapping[str, str], parent: int, *options: str) -> None:
        self._loop = loop = instance.loop
        self._input = asyncio.StreamReader(loop=loop)
        self.outputs = {fd: asyncio.StreamReader(2**24, loop=loop) for fd in (1, 2)}
        """Its output to stdout and stderr."""
        self.code: int | None = None
        """Its exit code, when it has ended by itself."""
        self._kernel = instance.world.kernel
        self._command = instance.command.prepared(
            ["mcp", *options], environ, instance.home, Streams(), parent
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._command.process.on_end.append(self._end)
        self.begin(self._run)

    # Its client

    def feed(self, data: bytes) -> None:
        """Write to its stdin."""
        self._input.feed_data(data)

    def close_input(self) -> None:
        self._input.feed_eof()

    def read_line(self) -> bytes:
        """Wait for the next line on its stdout; empty at the end."""

        async def read() -> bytes:
            async with asyncio.timeout(_WITHIN_S):
                return await self.outputs[1].readline()

        return drive(self._loop, read())

    def read_errors(self) -> str:
        """Wait for its end, and return what it has written to stderr."""

        async def read() -> bytes:
            async with asyncio.timeout(_WITHIN_S):
                return await self.outputs[2].read()

        return drive(self._loop, read()).decode()

    def kill(self) -> None:
        self._kernel.signal(self._command.process, signal.SIGKILL)

    # Its code

    @property
    def has_ended_input(self) -> bool:
        return self._input.at_eof()

    def take_input(self, size: int) -> bytes:
        return drive(self._loop, self._input.read(size))

    def begin(self, code: Callable[[], None]) -> None:
        """Run code of the process while the world goes on."""
        task = self._loop.create_task(run_blocking_on_loop(code, self._surroundings))
        for kept in (_tasks, self._tasks):
            kept.add(task)
            task.add_done_callback(kept.discard)

    @contextmanager
    def _surroundings(self) -> Iterator[None]:
        global _running
        before, _running = _running, self
        try:
            with self._command.surroundings():
                yield
        finally:
            _running = before

    def _run(self) -> None:
        self.code = self._command.code().returncode
        self._loop.call_soon(self._command.end)

    def _end(self) -> None:
        """End all that it does, as the end of its process does."""
        for task in self._tasks:
            task.cancel()
        for output in self.outputs.values():
            output.feed_eof()


class PlayedPump(Speech):
    """The client of a process `sm mcp` that another process has started."""

    def __init__(self, instance: Instance, starter: PlayedProcess) -> None:
        super().__init__()
        self._process = PumpProcess(instance, starter.environ, starter.pid)

    def write(self, line: bytes) -> None:
        self._process.feed(line + b"\n")

    def read_line(self) -> bytes:
        return self._process.read_line()


class PlayedSessionPump(PlayedPump):
    """As `SessionPump` of tests/integration/session_pump.py."""

    def __init__(self, instance: Instance) -> None:
        self.session: str = instance.spawn("Host", "serve")["session_id"]
        super().__init__(instance, instance.world.programs.running[self.session].process)
        self.greet()
