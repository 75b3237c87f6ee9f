"""Opens files as another process sees them: in its mount namespace, below its root directory.

The files may belong to an agent, so no path leads out: an absolute link starts again at the process's root, and `..`
ends there. Sources: openat2(2) (kernel 5.6), proc(5).
"""

import asyncio
import contextlib
import ctypes
import errno
import os
import stat
from collections.abc import Iterator

from sm.linux.platform import libc
from sm.linux.processes import root_directory

# The same number on all architectures of sm (arch/*/entry/syscalls/syscall.tbl of the kernel).
_OPENAT2 = 437
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_IN_ROOT = 0x10
_LOOK_S = 0.01


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class ProcessRoot:
    """The root directory of a process, open. `close` is idempotent; the process may end meanwhile."""

    def __init__(self, pid: int) -> None:
        """Raises OSError: the process is gone, or belongs to another user."""
        self._fd = os.open(root_directory(pid), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def open(self, path: bytes, flags: int) -> int:
        """A descriptor, as open(2). Raises OSError, with ENOSYS on a kernel before 5.6."""
        if b"\0" in path:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        how = _OpenHow(flags | os.O_CLOEXEC, 0, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS)
        fd = libc().syscall(_OPENAT2, self._fd, ctypes.c_char_p(path), ctypes.byref(how), ctypes.sizeof(how))
        if fd < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
        return int(fd)

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
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

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
