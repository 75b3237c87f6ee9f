"""Writes the files of an archive, and compares them. Every function blocks."""

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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


def write_record(path: str, record: Any) -> None:
    """Write JSON: in a `.jsonl` file one object on each line."""
    with (
        new_file(path) as descriptor,
        open(descriptor, "w", encoding="utf-8", errors="replace", closefd=False) as file,
    ):
        if path.endswith(".jsonl"):
            file.writelines(f"{json.dumps(row, ensure_ascii=False)}\n" for row in record)
        else:
            file.write(json.dumps(record, ensure_ascii=False, indent=2) + "\n")


def copy(source: int, start: int, end: int, target: int) -> None:
    """Copy these bytes of a file to an empty file. Holes stay holes, which take no room (lseek(2), SEEK_DATA)."""
    position = start
    while position < end:
        try:
            position = os.lseek(source, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # there is no data up to the end
                break
            raise
        data_end = min(os.lseek(source, position, os.SEEK_HOLE), end)
        os.lseek(target, position - start, os.SEEK_SET)
        while position < data_end:
            sent = os.sendfile(target, source, position, min(data_end - position, _PIECE_BYTES))
            if not sent:  # the file has become shorter
                return
            position += sent
    os.ftruncate(target, end - start)


def holds(whole: int, start: int, part: int) -> bool:
    """True if the content of the file `part` is in the file `whole` from the byte `start` on."""
    size = os.fstat(part).st_size
    if start < 0 or os.fstat(whole).st_size - start < size:
        return False
    position = 0
    while position < size:
        piece = os.pread(part, min(_COMPARED_BYTES, size - position), position)
        if not piece or os.pread(whole, len(piece), start + position) != piece:
            return False
        position += len(piece)
    return True
