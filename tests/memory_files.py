"""Lets the temporary files of tests be in a memory file system, and makes directories on a disk for containers."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MEMORY = "/dev/shm"
_FREE_MIN = 4 << 30
"""Bytes. The files of all workers take a tenth of it."""


def use_memory() -> None:
    """Make the temporary directory of this process one in memory, if that has room and programs can run there.

    A temporary directory that the caller has chosen stays.
    """
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK | os.X_OK):
        return
    found = os.statvfs(MEMORY)
    if found.f_bavail * found.f_frsize >= _FREE_MIN and not found.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = tempfile.tempdir = MEMORY


def short_place() -> str:
    """A directory for temporary files that every user can reach, with a path that leaves room for that of a socket."""
    return MEMORY if tempfile.gettempdir() == MEMORY else "/tmp"


@contextmanager
def disk_directory() -> Iterator[Path]:
    """A directory from which a container may mount: sm refuses all below /dev."""
    with tempfile.TemporaryDirectory(prefix="sm-t-", dir="/tmp", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.fixture(name="tmp_path")
def path_on_disk() -> Iterator[Path]:
    with disk_directory() as directory:
        yield directory
