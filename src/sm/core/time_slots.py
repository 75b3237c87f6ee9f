"""Slots of a quarter of an hour, in which sums over time are stored. Pure.

Every time zone begins its days at the beginning of a slot. A slot is named by its beginning in UTC: `2026-01-31T10:15`.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo

from sm.core.timestamps import epoch_s

SLOT_S = 900
_SLOTS_MAX = 24 * 4 * 31
"""A longer time is one of a clock that was set. Its rest counts in its first slot."""


def slot_at(at_s: float) -> str:
    """The slot of a time in seconds since the epoch."""
    return datetime.fromtimestamp(at_s // SLOT_S * SLOT_S, UTC).isoformat(timespec="minutes")[:16]


def rest_of_slot(at: str) -> tuple[str, float]:
    """The slot of a time (ISO 8601), and the seconds from the time to the end of the slot. Of an empty one: no slot."""
    if not at:
        return "", SLOT_S
    at_s = epoch_s(at)
    return slot_at(at_s), SLOT_S - at_s % SLOT_S


def split(since: str, seconds: float) -> Iterator[tuple[str, float]]:
    """The seconds after `since` (ISO 8601), by slot. Nothing if the time is invalid."""
    try:
        start_s = epoch_s(since)
    except (ValueError, OverflowError):
        return
    end_s = start_s + seconds
    if end_s - start_s > _SLOTS_MAX * SLOT_S:
        yield slot_at(start_s), seconds
        return
    while start_s < end_s:
        next_s = min(end_s, (start_s // SLOT_S + 1) * SLOT_S)
        yield slot_at(start_s), next_s - start_s
        start_s = next_s


def local_day(at: str, zone: tzinfo | None) -> str | None:
    """The date in `zone` (None for the zone of this machine) of a slot or a time in UTC; None for an invalid one."""
    try:
        moment = datetime.fromisoformat(at.removesuffix("Z")).replace(tzinfo=UTC)
        return moment.astimezone(zone).date().isoformat()
    except (ValueError, OverflowError):
        return None
