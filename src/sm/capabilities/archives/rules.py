"""Decides which archives of ended sessions are deleted. Pure."""

import math
from collections.abc import Collection, Iterable

from sm.core.dataclass import dataclass

_DAY_S = 86_400.0
MB = 1_000_000


@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    session_id: str
    at_s: float
    """The time of its last change, in seconds since the epoch."""
    size_bytes: int


def surplus(
    entries: Iterable[ArchiveEntry],
    live: Collection[str],
    now_s: float,
    *,
    keep_days: int | None,
    max_mb: int | None,
) -> list[ArchiveEntry]:
    """The archives to delete: those that are too old or too large by themselves, then the oldest until there is room.

    In this order, so that one huge archive costs no other. Never one of a session in `live`, whose archive takes room
    all the same.
    """
    ordered = sorted(entries, key=lambda entry: (entry.at_s, entry.session_id))
    total = sum(entry.size_bytes for entry in ordered)
    oldest_s = -math.inf if keep_days is None else now_s - keep_days * _DAY_S
    room = math.inf if max_mb is None else max_mb * MB
    gone, left = [], []
    for entry in ordered:
        if entry.session_id in live:
            continue
        if entry.at_s < oldest_s or entry.size_bytes > room:
            gone.append(entry)
            total -= entry.size_bytes
        else:
            left.append(entry)
    for entry in left:
        if total <= room:
            break
        gone.append(entry)
        total -= entry.size_bytes
    return gone
