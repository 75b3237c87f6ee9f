"""Runs a program on a pseudo-terminal of its own. A closed terminal hangs the program up (SIGHUP).

Sources: pty(7), ioctl_tty(2).
"""

import asyncio
import fcntl
import os
import signal
import struct
import termios
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from sm.linux.programs import wait_or_kill

_READ_BYTES = 64 * 1024
_ENDS_WITHIN_S = 2.0


class PtyProcess:
    """A running program. One task may read while another one writes."""

    def __init__(self, master: int) -> None:
        self._master = master
        self._loop = asyncio.get_running_loop()

    async def read(self) -> bytes:
        """The next output, or empty if the program has closed its terminal. Nothing is read ahead."""
        while True:
            try:
                return os.read(self._master, _READ_BYTES)
            except BlockingIOError:
                await self._wait(self._loop.add_reader, self._loop.remove_reader)
            except OSError:  # EIO: no process has the terminal open
                return b""

    async def write(self, content: bytes) -> None:
        """Type `content`. Waits while the program does not read; what it cannot read any more is dropped."""
        while content:
            try:
                content = content[os.write(self._master, content) :]
            except BlockingIOError:
                await self._wait(self._loop.add_writer, self._loop.remove_writer)
            except OSError:
                return

    def resize(self, columns: int, rows: int) -> None:
        _resize(self._master, columns, rows)

    async def _wait(self, add: Callable[..., object], remove: Callable[[int], object]) -> None:
        ready = asyncio.Event()
        add(self._master, ready.set)
        try:
            await ready.wait()
        finally:
            remove(self._master)


@asynccontextmanager
async def pty_process(
    argv: Sequence[str], environment: Mapping[str, str], columns: int, rows: int
) -> AsyncIterator[PtyProcess]:
    """Run a program while the context is open. It then gets SIGHUP, and SIGKILL if it does not end.

    Also when this process is killed, the kernel closes the terminal. Raises OSError if the program cannot be run.
    """
    master, slave = os.openpty()
    process = None
    try:
        os.set_blocking(master, False)
        try:
            _resize(slave, columns, rows)
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=slave,
                stdout=slave,
                stderr=slave,
                env=environment,
                cwd="/",
                start_new_session=True,
                preexec_fn=_take_terminal,
            )
        finally:
            os.close(slave)
        yield PtyProcess(master)
    finally:
        os.close(master)
        if process is not None:
            await wait_or_kill(process, _ENDS_WITHIN_S)


def _take_terminal() -> None:
    """Without a controlling terminal the program would get no SIGHUP and no SIGWINCH.

    nohup(1) lets all processes below it ignore SIGHUP.
    """
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _resize(descriptor: int, columns: int, rows: int) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
