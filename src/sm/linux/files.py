"""Bounded reads of files that agents can write, without following links, and atomic writes of private files."""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from sm.core.dataclass import dataclass

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# O_NONBLOCK: without it, opening a named pipe blocks until somebody writes to it.
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class NotRegular(OSError):
    """The path names a directory, a pipe, a socket or a device."""


@dataclass(frozen=True, slots=True)
class Content:
    """The beginning of a file."""

    data: bytes
    status: os.stat_result
    """Taken before the read."""
    cut: bool
    """The file is longer than the limit."""


@contextmanager
def regular_file(path: str, *, directory: int | None = None, follow: bool = False) -> Iterator[int]:
    """Open a regular file for reading, as a descriptor, without blocking.

    `directory`: the descriptor of the directory that a relative `path` starts from. `follow`: allow the last part of
    `path` to be a link; only for files of the operator. Raises NotRegular, and OSError as open(2) (ELOOP for a link).
    """
    try:
        descriptor = os.open(path, _FILE if follow else _FILE | os.O_NOFOLLOW, dir_fd=directory)
    except ValueError:  # a null character
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotRegular(errno.EINVAL, "not a regular file", path)
        yield descriptor
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class FilePart:
    """Bytes of a file that is open."""

    descriptor: int
    size: int
    start: int = 0

    def read(self, position: int, size: int) -> bytes:
        """Read at most `size` bytes from the byte `position` of the part on. Raises OSError."""
        wanted = max(0, min(size, self.size - position))
        return os.pread(self.descriptor, wanted, self.start + position)


@contextmanager
def whole_file(path: str) -> Iterator[FilePart]:
    """Open a regular file for reading. Raises as `regular_file`."""
    with regular_file(path) as descriptor:
        yield FilePart(descriptor, os.fstat(descriptor).st_size)


def read_file(path: str, limit_bytes: int, *, directory: int | None = None, follow: bool = False) -> Content:
    """Read at most `limit_bytes` from the beginning of a regular file. Arguments and errors as for `regular_file`."""
    with regular_file(path, directory=directory, follow=follow) as descriptor:
        status = os.fstat(descriptor)
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(limit_bytes + 1)
        return Content(data[:limit_bytes], status, len(data) > limit_bytes)


def read_or_empty(path: str, limit_bytes: int) -> bytes:
    """Read at most `limit_bytes` from the beginning of a regular file; empty when it cannot be read."""
    try:
        return read_file(path, limit_bytes).data
    except OSError:
        return b""


@contextmanager
def directory_below(base: str, parts: Sequence[str], *, follow: bool = False) -> Iterator[int]:
    """Open the directory `base/parts...`, as a descriptor, and follow no link below `base`.

    `follow`: allow `base` itself to be a link. Raises OSError (ELOOP or ENOTDIR for a link).
    """
    descriptor = os.open(base, _DIRECTORY if follow else _DIRECTORY | os.O_NOFOLLOW)
    try:
        for part in parts:
            deeper = os.open(part, _DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = deeper
        yield descriptor
    finally:
        os.close(descriptor)


def stat_without_links(path: str, *, below: str = "/") -> os.stat_result:
    """The status of the absolute `path`, read from the directory `below` as its root, without following any link.

    Raises OSError: ENOTDIR or ELOOP for a link. `below` itself may be a link.
    """
    *parents, name = path.strip("/").split("/")
    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    descriptor = os.open(below, flags)
    try:
        for part in parents:
            deeper = os.open(part, flags | os.O_NOFOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = deeper
        status = os.stat(name, dir_fd=descriptor, follow_symlinks=False) if name else os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    return status


def replace_private(path: str, content: bytes) -> None:
    """Write the file (0600) as a whole: after a crash or a power failure it has its old or its new content.

    A link at `path` is replaced, not followed. Only one process at a time may write `path`. Raises OSError.
    """
    new = path + ".new"
    with suppress(FileNotFoundError):
        os.unlink(new)  # from a crash
    try:
        with open(os.open(new, _NEW_FILE, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(new, path)
    except OSError:
        with suppress(OSError):
            os.unlink(new)
        raise
