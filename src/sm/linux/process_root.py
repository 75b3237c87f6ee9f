"""Opens files as another process sees them: in its mount namespace, below its root directory.

The files may belong to an agent, so no path leads out: an absolute link starts again at the process's root, and `..`
ends there.
"""

import asyncio
import contextlib
import errno
import os
import stat
from collections.abc import Iterator

from sm.linux.kernel import kernel

_LOOK_S = 0.01


class ProcessRoot:
    """The root directory of a process, open. `close` is idempotent; the process may end meanwhile."""

    def __init__(self, pid: int) -> None:
        """Raises OSError: the process is gone, or belongs to another user."""
        self._root = kernel().open_root(pid)

    def open(self, path: bytes, flags: int) -> int:
        """A descriptor, as open(2). Raises OSError, with ENOSYS on a kernel before 5.6."""
        return self._root.open(path, flags)

    def status_without_links(self, path: str) -> os.stat_result:
        """The status of an absolute path. Raises OSError: ENOTDIR or ELOOP for a link."""
        return self._root.status_without_links(path)

    def status(self, path: bytes, *, follow: bool = True) -> os.stat_result:
        """As stat(2), without `follow` as lstat(2). Raises OSError."""
        fd = self.open(path, os.O_PATH | (0 if follow else os.O_NOFOLLOW))
        try:
            return os.fstat(fd)
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def regular_file(self, path: bytes) -> Iterator[int]:
        """Open a regular file for reading. Raises OSError, EINVAL for another kind of file, which is not opened."""
        place = self.open(path, os.O_PATH)
        try:
            if not stat.S_ISREG(os.fstat(place).st_mode):
                raise OSError(errno.EINVAL, "not a regular file", path)
            fd = os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        finally:
            os.close(place)
        try:
            yield fd
        finally:
            os.close(fd)

    def close(self) -> None:
        self._root.close()

    def __enter__(self) -> "ProcessRoot":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def wait_until_visible(pid: int) -> None:
    """Return when this process may open the root of process `pid`, or that process is gone.

    A container's first process is at first a program of the runtime, which hides its files from everybody but root. The
    engine reports the start before that program runs the container's own: on a busy machine the hidden time is long.
    Source: proc(5), PTRACE_MODE_READ_FSCREDS in ptrace(2). Without a limit of time.
    """
    while True:
        try:
            ProcessRoot(pid).close()
        except PermissionError:
            await asyncio.sleep(_LOOK_S)
        except (FileNotFoundError, ProcessLookupError):
            return
        else:
            return
