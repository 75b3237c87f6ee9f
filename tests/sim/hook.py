"""The command `sm hook` in the process of the test: its real code, with descriptors and signals that are played."""

import os
import posix
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from greenlet import GreenletExit  # type: ignore[import-untyped]

from sm.cli.hook import emit, permission, spool, tools, transport
from sm.client.connection import HttpConnection
from tests.sim.blocking import Interruption, run_blocking_on_loop
from tests.sim.clocks import Clocks
from tests.sim.command import Command, Completed, RunningCommand, StartedCommand, Streams
from tests.sim.waiting import BlockingPoll, wait_for_bytes


class _Descriptors:
    """Stands for the module `posix` in the hook. `files`: the real descriptor for each of the hook."""

    def __init__(self, files: Mapping[int, int], environ: Mapping[bytes, bytes]) -> None:
        self._files = files
        self.environ = environ

    def __getattr__(self, name: str) -> Any:
        return getattr(posix, name)

    def read(self, fd: int, size: int) -> bytes:
        return os.read(self._files[fd], size)

    def write(self, fd: int, data: bytes) -> int:
        return os.write(self._files[fd], data)

    def closerange(self, first: int, last: int) -> None:
        """The hook has inherited nothing."""

    def fork(self) -> int:
        raise AssertionError("a played hook has no child")


class _Poll(BlockingPoll):
    def __init__(self, files: Mapping[int, int], sleep: Callable[[float], None]) -> None:
        super().__init__(sleep)
        self._files = files

    def register(self, fd: int, events: int = select.POLLIN) -> None:
        super().register(self._files[fd], events)


def _signals() -> SimpleNamespace:
    """Stands for the module `_signal`: a played hook gets no signals, and ends in time by its own limits."""

    def nothing(*_: object) -> None:
        """Accept every call."""

    return SimpleNamespace(
        **{name: getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM", "SIG_DFL")},
        SIG_BLOCK=signal.SIG_BLOCK,
        SIG_UNBLOCK=signal.SIG_UNBLOCK,
        ITIMER_REAL=signal.ITIMER_REAL,
        pthread_sigmask=nothing,
        signal=nothing,
        setitimer=nothing,
    )


class RunningHook(RunningCommand):
    """One run of `sm hook`. `files`: the real descriptors of its stdin and stdout."""

    def __init__(self, *about: Any, files: Mapping[int, int], clocks: Clocks) -> None:
        super().__init__(*about)
        self._files = files
        self._clocks = clocks
        self._posix = _Descriptors(files, self._environ)

    @contextmanager
    def surroundings(self) -> Iterator[None]:
        recursion = sys.getrecursionlimit()
        with super().surroundings(), ExitStack() as stack:
            for module in (emit, permission, transport):
                stack.enter_context(mock.patch.object(module, "posix", self._posix))
            for module in (emit, permission, tools):
                stack.enter_context(mock.patch.object(module, "_signal", _signals()))
            polls = SimpleNamespace(poll=lambda: _Poll(self._files, self._clocks.sleep), POLLIN=select.POLLIN)
            for module in (emit, transport):
                stack.enter_context(mock.patch.object(module, "select", polls))
            # A child would take the greenlets of the whole simulation with it.
            stack.enter_context(mock.patch.object(permission, "_spool_in_child", spool.write_event))
            waits = wait_for_bytes(self._clocks.sleep, self._files)
            stack.enter_context(mock.patch.object(HttpConnection, "_wait_for_bytes", waits))
            try:
                yield
            finally:
                sys.setrecursionlimit(recursion)

    def code(self) -> Completed:
        """Run the hook, which ends with 0 whatever happens, as `sm.cli.main` does."""
        try:
            awaits_tools = "--await-tools" in self._arguments
            emit.emit(self._arguments[1], int(self._clocks.wall() * 1e9), awaits_tools=awaits_tools)
        except (AssertionError, GreenletExit):
            raise  # of the simulation
        except BaseException:  # noqa: BLE001
            pass
        return subprocess.CompletedProcess(["sm", *self._arguments], 0, "", "")


def start_hook(
    command: Command,
    provider: str,
    environ: Mapping[str, str],
    cwd: Path,
    files: Mapping[int, int],
    *options: str,
) -> StartedCommand:
    """Start `sm hook`. `files`: the real descriptors for 0 and 1."""
    world = command.world
    about = (world, command.sockets, ("hook", provider, *options), environ, cwd, Streams(), world.shell.pid)
    hook = RunningHook(*about, files=files, clocks=world.clocks)

    async def run() -> Completed:
        try:
            return await run_blocking_on_loop(hook.code, hook.surroundings)
        finally:
            hook.end()

    return command.begin(run(), Interruption())
