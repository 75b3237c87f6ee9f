"""Copies of the database as gzip files. Blocking: call in a thread."""

import errno
import gzip
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

SUFFIX = ".gz"

_LEVEL = 6
_PIECE_BYTES = 1024 * 1024
_NEW = ".new"


def _reader(path: str) -> IO[bytes]:
    return gzip.open(path) if path.endswith(SUFFIX) else open(path, "rb")  # type: ignore[return-value]  # GzipFile


def copy_file(source: str, target: str, *, pack: bool = False) -> None:
    """Copy a file to a new one, 0600. Uncompresses a file of gzip, and compresses with `pack`. Raises OSError."""
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file, _reader(source) as content:
            if pack:
                with gzip.GzipFile("", "wb", _LEVEL, file) as packed:
                    shutil.copyfileobj(content, packed, _PIECE_BYTES)
            else:
                shutil.copyfileobj(content, file, _PIECE_BYTES)
    except (EOFError, zlib.error) as error:
        raise OSError(errno.EIO, f"it is damaged ({error})", source) from None


def compress(path: str) -> None:
    """Replace the file by PATH.gz with the same times. A crash in between leaves both. Raises OSError."""
    packed, new = path + SUFFIX, path + SUFFIX + _NEW
    with suppress(FileNotFoundError):
        os.unlink(new)
    try:
        copy_file(path, new, pack=True)
        status = os.stat(path)
        os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))
        os.rename(new, packed)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(new)
    os.unlink(path)


@contextmanager
def uncompressed(path: str) -> Iterator[str]:
    """The path of the uncompressed content: `path` itself, or a temporary copy in its directory. Raises OSError."""
    if not path.endswith(SUFFIX):
        yield path
        return
    with tempfile.TemporaryDirectory(
        ".tmp", os.path.basename(path) + ".", os.path.dirname(path)
    ) as directory:
        copy = f"{directory}/copy"
        copy_file(path, copy)
        yield copy
