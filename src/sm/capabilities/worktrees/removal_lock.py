"""Lets only one command at a time tear down and remove a worktree, or merge a copy."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sm.errors import IllegalState
from sm.linux.repositories import UnreadableRepository, find_repository


@contextmanager
def removal_lock(path: str) -> Iterator[int | None]:
    """Hold the git directory of the worktree at this path. Raises IllegalState if another command holds it.

    Yields a descriptor for the programs that the command starts there: they hold it after the command is killed. None
    if there is nothing to hold, or if the file system has no such locks.
    """
    descriptor = _opened(path)
    try:
        if descriptor is not None:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise IllegalState(
                    "another command removes or merges it, or its tear-down still runs"
                ) from None
            except OSError:  # as NFS, which cannot lock a directory
                yield None
                return
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _opened(path: str) -> int | None:
    with suppress(UnreadableRepository, OSError):
        found = find_repository(path) if os.path.isdir(path) else None
        if found is not None and found.top == path:
            return os.open(found.own, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    return None
