"""The lock of an instance: only its holder may change the state directory.

A lock belongs to a file, not to a path: when somebody removes the file, another daemon can lock a new one. So the
holder compares the file with the path, and ends when they differ.
"""

import asyncio
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sm.errors import AlreadyRunning
from sm.linux.sockets import peer_of
from sm.paths import InstancePaths

_CHECK_EVERY_S = 2.0


class InstanceLock:
    """A lock that this process took."""

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def is_held(self) -> bool:
        """False when the locked file is no longer the file at the lock's path."""
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.stat(self._path))
        except FileNotFoundError:
            return False

    async def wait_lost(self) -> None:
        """Return when the lock is no longer held, at most a few seconds later."""
        while self.is_held():  # noqa: ASYNC110 - no event reports this on every file system
            await asyncio.sleep(_CHECK_EVERY_S)

    def write_pid(self) -> None:
        with suppress(OSError):  # on a full disk the pid is missing, but the lock holds
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, f"{os.getpid()}\n".encode())

    def close(self) -> None:
        os.close(self._descriptor)


@contextmanager
def instance_lock(paths: InstancePaths) -> Iterator[InstanceLock]:
    """Hold the instance's lock, and write this process's pid into its file. Raises AlreadyRunning."""
    lock = _lock(paths.lock)
    while not lock.is_held():  # the file was replaced between the open and the lock
        lock.close()
        lock = _lock(paths.lock)
    try:
        if (
            listener := _listener(paths.socket)
        ) is not None:  # a daemon that lost its lock file, and will end
            raise _already_running(listener)
        lock.write_pid()
        yield lock
    finally:
        lock.close()


def _lock(path: str) -> InstanceLock:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 20).decode(errors="replace").strip()
        os.close(descriptor)
        raise _already_running(holder) from None
    return InstanceLock(path, descriptor)


def _already_running(pid: str) -> AlreadyRunning:
    return AlreadyRunning(f"the daemon is already running (pid {pid or 'unknown'})", "sm daemon status")


def _listener(path: str) -> str | None:
    """The pid of the process that listens on the socket at `path`; empty when unknown, None when no process does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
            return str(peer_of(probe).pid)
        except BlockingIOError:  # its queue is full
            return ""
        except OSError:
            return None
