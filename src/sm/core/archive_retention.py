"""Decides which archives of ended sessions are deleted. Pure."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

_DAY_S = 86_400.0
_MB = 1_000_000


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
    """The archives to delete, oldest first: those that are too old, then the oldest until the others have room.

    Never one of a session in `live`, whose archive takes room all the same.
    """
    ordered = sorted(entries, key=lambda entry: (entry.at_s, entry.session_id))
    total = sum(entry.size_bytes for entry in ordered)
    gone = []
    for entry in ordered:
        too_old = keep_days is not None and entry.at_s < now_s - keep_days * _DAY_S
        too_large = max_mb is not None and total > max_mb * _MB
        if (too_old or too_large) and entry.session_id not in live:
            gone.append(entry)
            total -= entry.size_bytes
    return gone
