"""Writes and reads the tar file of an archive. Every function blocks.

A file in it is a part of the tar file, uncompressed, so it is compared and read in its place. Its time has fractions of
a second (pax, POSIX.1-2001).
"""

import errno
import os
import tarfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from sm.capabilities.archives.files.copies import copy
from sm.core.dataclass import dataclass
from sm.linux.files import FilePart, regular_file

TAR = ".tar"
_BLOCK_BYTES = 512
_END_BYTES = 2 * _BLOCK_BYTES
"""Zeros that end a tar file."""
_MODE = 0o600


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file in an archive. `open` gives its content; call it only while the archive is open."""

    size: int
    at_s: float
    """The time of its last change, in seconds since the epoch."""
    open: Callable[[], AbstractContextManager[FilePart]]


class TarWriter:
    """Writes a new tar file. `root`: the directory that all names in it are in. Methods raise OSError."""

    def __init__(self, descriptor: int, root: str) -> None:
        self._descriptor = descriptor
        self._root = root
        self._end = 0

    def add(self, name: str, data: bytes, at_s: float) -> None:
        header = self._header(name, len(data), at_s)
        self._put(self._end, header + data)
        self._end = _padded(self._end + len(header) + len(data))

    def copy(self, name: str, source: FilePart, at_s: float) -> FilePart:
        """Copy the bytes, fewer if the source has become shorter. Return the copy."""
        # The size is known only after the copy, and changes no length of a header.
        start = self._end + len(self._header(name, source.size, at_s))
        copied = copy(source, self._descriptor, start)
        self._put(self._end, self._header(name, copied, at_s))
        self._end = _padded(start + copied)
        return FilePart(self._descriptor, copied, start)

    def finish(self) -> None:
        """End the file, and wait until the disk has it."""
        os.ftruncate(self._descriptor, self._end + _END_BYTES)
        os.fsync(self._descriptor)

    def _header(self, name: str, size: int, at_s: float) -> bytes:
        entry = tarfile.TarInfo(f"{self._root}/{name}")
        entry.size, entry.mode, entry.mtime = size, _MODE, at_s
        return entry.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")

    def _put(self, position: int, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            written = os.pwrite(self._descriptor, rest, position)
            rest, position = rest[written:], position + written


def _padded(position: int) -> int:
    return -(-position // _BLOCK_BYTES) * _BLOCK_BYTES


@contextmanager
def tar_files(path: str) -> Iterator[dict[str, StoredFile]]:
    """The files by their names below the root. Raises OSError, also for a damaged file."""
    with regular_file(path) as descriptor, open(descriptor, "rb", closefd=False) as file:
        try:
            with tarfile.open(fileobj=file, mode="r:", encoding="utf-8", errors="surrogateescape") as tar:
                members = [member for member in tar.getmembers() if member.isreg()]
        except tarfile.TarError:
            raise OSError(errno.EBADMSG, "the archive is damaged", path) from None
        if any(m.offset_data + m.size > os.fstat(descriptor).st_size for m in members):
            raise OSError(errno.EBADMSG, "the archive is damaged", path)
        yield {
            member.name.partition("/")[2]: _stored(
                FilePart(descriptor, member.size, member.offset_data), float(member.mtime)
            )
            for member in members
        }


def _stored(part: FilePart, at_s: float) -> StoredFile:
    return StoredFile(part.size, at_s, lambda: nullcontext(part))
