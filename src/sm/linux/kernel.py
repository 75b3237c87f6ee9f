"""The calls to the kernel about processes and their terminals, behind one protocol, so that tests can play processes.

Only `processes`, `process_root`, `mount_points`, `jobs`, `process_usage` and `ttys` of this room use it.
"""

import array
import ctypes
import errno
import fcntl
import os
import signal
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from sm.linux.files import stat_without_links
from sm.linux.platform import libc

# The same number on all architectures of sm (arch/*/entry/syscalls/syscall.tbl of the kernel).
_OPENAT2 = 437
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_IN_ROOT = 0x10
_LOCAL_FLAGS = 3
"""The index of the local modes in the list of `termios.tcgetattr`."""


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
    """`RootDirectory` of a process of this kernel, in the mount namespace of the process.

    Sources: openat2(2) (kernel 5.6), proc(5).
    """

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


class FileIdentity(Protocol):
    """The used fields of `os.stat_result`."""

    @property
    def st_dev(self) -> int: ...
    @property
    def st_ino(self) -> int: ...
    @property
    def st_rdev(self) -> int: ...


class KernelCalls(Protocol):
    """The paths are those of proc(5), and the terminal devices. Every call raises OSError as the kernel reports it."""

    def read(self, path: str) -> bytes:
        """Return the whole file."""

    def names(self, path: str) -> list[str]:
        """Return the names in a directory."""

    def link(self, path: str) -> str:
        """Return the target of a symbolic link."""

    def status(self, path: str) -> FileIdentity:
        """Return the status of the file behind a path."""

    def open_root(self, pid: int) -> RootDirectory:
        """Open the root directory of a process. The caller closes it."""

    def open_pidfd(self, pid: int) -> int:
        """Return a descriptor that becomes readable at the end of the process (pidfd_open(2)). The caller closes it."""

    def send_signal(self, pidfd: int, number: int) -> None:
        """Send a signal to the process of a pidfd (pidfd_send_signal(2))."""

    def unread_bytes(self, tty: str) -> int:
        """Return the number of bytes that no program has read from a terminal (FIONREAD, ioctl_tty(2))."""

    def local_flags(self, tty: str) -> int:
        """Return the local modes of a terminal (termios(3))."""


class LinuxKernel:
    """The kernel of this machine."""

    def read(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def names(self, path: str) -> list[str]:
        return os.listdir(path)

    def link(self, path: str) -> str:
        return os.readlink(path)

    def status(self, path: str) -> FileIdentity:
        return os.stat(path)

    def open_root(self, pid: int) -> RootDirectory:
        return OpenRoot(pid)

    def open_pidfd(self, pid: int) -> int:
        return os.pidfd_open(pid)

    def send_signal(self, pidfd: int, number: int) -> None:
        signal.pidfd_send_signal(pidfd, number)

    def unread_bytes(self, tty: str) -> int:
        with _opened(tty) as fd:
            unread = array.array("i", [0])
            fcntl.ioctl(fd, termios.FIONREAD, unread)
            return unread[0]

    def local_flags(self, tty: str) -> int:
        with _opened(tty) as fd:
            try:
                flags: int = termios.tcgetattr(fd)[_LOCAL_FLAGS]
            except termios.error as error:
                raise OSError(*error.args) from None
            return flags


@contextmanager
def _opened(tty: str) -> Iterator[int]:
    # O_NOCTTY: the device must not become the controlling terminal of this process.
    fd = os.open(tty, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


_current: KernelCalls = LinuxKernel()


def kernel() -> KernelCalls:
    return _current


@contextmanager
def replaced_kernel(other: KernelCalls) -> Iterator[None]:
    """Ask `other` in place of the kernel of this machine while the context is open. For tests."""
    global _current
    before, _current = _current, other
    try:
        yield
    finally:
        _current = before
