"""Removes the cgroups that a killed daemon of a test or of a benchmark leaves.

Every daemon looks through all cgroups of the machine when it starts its first agent: 20,000 of them take 0.3 seconds.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

_MOUNTS = Path("/sys/fs/cgroup")


def cgroups_of(database: Path) -> Iterator[Path]:
    """The directory of the instance with this database in each hierarchy."""
    with contextlib.suppress(sqlite3.Error):  # of a test with no database, or with a broken one
        with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as opened:
            ((instance,),) = opened.execute("SELECT value FROM meta WHERE name = 'instance'")
        for pattern in ("", "*/"):
            yield from _MOUNTS.glob(f"{pattern}sm-{instance[:8]}")


def remove_cgroups(database: Path) -> None:
    """Remove those of an instance whose processes have all ended."""
    for top in cgroups_of(database):
        for directory, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(directory)
