"""Copies and compares parts of files. Every function blocks."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from sm.linux.files import FilePart

_PIECE_BYTES = 8 * 2**20
_COMPARED_BYTES = 2**20
_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def new_file(path: str) -> Iterator[int]:
    """Make a file for reading and writing, as a descriptor. Raises OSError."""
    descriptor = os.open(path, _NEW_FILE, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def copy(source: FilePart, target: int, at: int) -> int:
    """Copy to the byte `at` of a file that ends before it. Return the size of the copy.

    It is shorter if the source has become shorter. Holes stay holes, which take no room (lseek(2), SEEK_DATA).
    """
    position, end = source.start, source.start + source.size
    while position < end:
        try:
            data = os.lseek(source.descriptor, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            break  # there is no data up to the end
        if data >= end:
            break
        position = data
        data_end = min(os.lseek(source.descriptor, position, os.SEEK_HOLE), end)
        os.lseek(target, at + position - source.start, os.SEEK_SET)
        while position < data_end:
            sent = os.sendfile(target, source.descriptor, position, min(data_end - position, _PIECE_BYTES))
            if not sent:
                return position - source.start
            position += sent
    size = max(position, min(end, os.fstat(source.descriptor).st_size)) - source.start
    os.ftruncate(target, at + size)
    return size


def holds(whole: FilePart, start: int, part: FilePart) -> bool:
    """True if the content of `part` is in `whole` from its byte `start` on."""
    if start < 0 or whole.size - start < part.size:
        return False
    position = 0
    while position < part.size:
        piece = part.read(position, _COMPARED_BYTES)
        if not piece or whole.read(start + position, len(piece)) != piece:
            return False
        position += len(piece)
    return True
