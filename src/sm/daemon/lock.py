"""The lock of an instance: only its holder may change the state directory."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sm.errors import AlreadyRunning
from sm.paths import InstancePaths


@contextmanager
def instance_lock(paths: InstancePaths) -> Iterator[None]:
    """Hold the instance's lock, and write this daemon's pid into its file. Raises AlreadyRunning."""
    descriptor = os.open(paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 20).decode(errors="replace").strip()
            raise AlreadyRunning(
                f"the daemon is already running (pid {holder or 'unknown'})", "sm daemon status"
            ) from None
        with suppress(OSError):  # on a full disk the pid is missing, but the lock holds
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(descriptor)
