"""The root directory of a process: opens files below it, in the mount namespace of the process.

Sources: openat2(2) (kernel 5.6), proc(5).
"""

import ctypes
import errno
import os
from typing import Protocol

from sm.linux.files import stat_without_links
from sm.linux.platform import libc

# The same number on all architectures of sm (arch/*/entry/syscalls/syscall.tbl of the kernel).
_OPENAT2 = 437
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_IN_ROOT = 0x10


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class RootDirectory(Protocol):
    """The root directory of a process, open. `close` is idempotent; the process may end meanwhile."""

    def open(self, path: bytes, flags: int) -> int:
        """Return a descriptor, as open(2). No link leads out. Raises OSError, with ENOSYS on a kernel before 5.6."""

    def status_without_links(self, path: str) -> os.stat_result:
        """Return the status of an absolute path. Raises OSError: ENOTDIR or ELOOP for a link."""

    def close(self) -> None: ...


class OpenRoot:
    """`RootDirectory` of a process of this kernel."""

    def __init__(self, pid: int) -> None:
        """Raises OSError: the process is gone, or belongs to another user."""
        self._fd = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def open(self, path: bytes, flags: int) -> int:
        if b"\0" in path:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        how = _OpenHow(flags | os.O_CLOEXEC, 0, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS)
        fd = libc().syscall(_OPENAT2, self._fd, ctypes.c_char_p(path), ctypes.byref(how), ctypes.sizeof(how))
        if fd < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
        return int(fd)

    def status_without_links(self, path: str) -> os.stat_result:
        return stat_without_links(path, below=f"/proc/self/fd/{self._fd}")

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
