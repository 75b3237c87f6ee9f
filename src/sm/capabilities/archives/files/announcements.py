"""Keeps when the deletion of an archive was announced, in a file beside the archive. Every function blocks.

The file, and not a row, because an archive outlives the database in which its session was.
"""

import json
from contextlib import suppress

from sm.linux.files import read_file, replace_private

SUFFIX = ".notice"
_MAX_BYTES = 1_000


def announced_at(path: str, at_s: float) -> float | None:
    """When the deletion of the archive `path` as it was changed at `at_s` was announced, or None if it was not."""
    with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
        value = json.loads(read_file(path + SUFFIX, _MAX_BYTES).data)
        if value["archive_at_s"] == at_s:
            return float(value["announced_at_s"])
    return None


def announce(path: str, at_s: float, now_s: float) -> None:
    """Raises OSError."""
    replace_private(path + SUFFIX, json.dumps({"archive_at_s": at_s, "announced_at_s": now_s}).encode())
