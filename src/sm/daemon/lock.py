"""The lock of an instance: only its holder may change the state directory.

A lock belongs to a file, not to a path: when a cleaner removes the file, another daemon can lock a new one. So the
holder compares the file with the path, and locks the new file when they differ. It has lost its lock only when another
daemon holds the new file.
"""

import fcntl
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sm.errors import AlreadyRunning
from sm.linux.sockets import peer_of
from sm.paths import InstancePaths

log = logging.getLogger(__name__)

_UNNAMED_CHECKS = 5
"""As often a lock whose holder has not written its pid is taken for that of a daemon that is about to end."""


class InstanceLock:
    """A lock that this process took."""

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._unnamed = 0

    def is_held(self) -> bool:
        """False when the locked file is no longer the file at the lock's path."""
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.stat(self._path))
        except FileNotFoundError:
            return False

    def keep(self) -> bool:
        """Lock a file anew that was removed, or replaced by one that nobody has locked; to be called now and then.

        Returns False if another daemon holds the lock, or its directory is gone.
        """
        if self.is_held():
            return True
        try:
            self._take_again()
        except FileNotFoundError:
            return False
        except _Held as other:
            # A daemon that starts holds it for a moment, before it finds this one and writes its pid.
            self._unnamed += 1
            return other.holder in ("", str(os.getpid())) and self._unnamed < _UNNAMED_CHECKS
        except OSError as error:  # such as a full disk: others still find the socket of this daemon
            log.warning("cannot lock %s again: %s", self._path, error)
            return True
        self._unnamed = 0
        return True

    def _take_again(self) -> None:
        """Lock the file at the path in place of the one that was there. Raises _Held, OSError."""
        taken = _lock(self._path)
        if not taken.is_held():  # replaced once more: the next check looks again
            taken.close()
            return
        os.close(self._descriptor)
        self._descriptor = taken._descriptor
        self.write_pid()
        log.warning("%s was removed or replaced; locked the new file", self._path)

    def write_pid(self) -> None:
        with suppress(OSError):  # on a full disk the pid is missing, but the lock holds
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, f"{os.getpid()}\n".encode())

    def close(self) -> None:
        os.close(self._descriptor)


@contextmanager
def instance_lock(paths: InstancePaths) -> Iterator[InstanceLock]:
    """Hold the instance's lock, and write this process's pid into its file. Raises AlreadyRunning."""
    try:
        lock = _lock(paths.lock)
        while not lock.is_held():  # the file was replaced between the open and the lock
            lock.close()
            lock = _lock(paths.lock)
    except _Held as other:
        raise _already_running(other.holder) from None
    try:
        if (listener := _listener(paths.socket)) is not None:  # a daemon whose lock file was removed
            raise _already_running(listener)
        lock.write_pid()
        yield lock
    finally:
        lock.close()


class _Held(Exception):
    """The file is locked. `holder` is the text in it, which is the pid of a daemon that serves."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


def _lock(path: str) -> InstanceLock:
    """Lock the file at `path`, which is made if there is none. Raises _Held, OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 20).decode(errors="replace").strip()
        os.close(descriptor)
        raise _Held(holder) from None
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
