"""Times and days of the local clock, also on days on which the clock changes. Pure but for the local time zone."""

from datetime import UTC, date, datetime, time, timedelta


def in_utc(local: datetime) -> datetime:
    """Convert a time without a zone, which is one of the local clock, to UTC. A time with a zone stays the same moment.

    A time that a change of the clock skips comes an hour earlier; of a time that comes twice, the first one counts.
    """
    # Python 3.11 and 3.13 read `fold` differently for a skipped time (PEP 495 means the latter).
    return min(local.replace(fold=fold).astimezone(UTC) for fold in (0, 1))


def next_local_time(wanted: time, now: datetime) -> datetime:
    """The first moment after `now` at which the local clock shows `wanted`, in UTC.

    A time that a change of the clock skips comes an hour earlier; of a time that comes twice, the first one counts.
    """
    return min(moment for moment in _moments(wanted, now) if moment > now)


def last_local_time(wanted: time, now: datetime) -> datetime:
    """The last moment until `now` at which the local clock showed `wanted`, in UTC."""
    return max(moment for moment in _moments(wanted, now) if moment <= now)


def _moments(wanted: time, now: datetime) -> list[datetime]:
    today = now.astimezone().date()
    return [in_utc(datetime.combine(today + timedelta(days=days), wanted)) for days in (-2, -1, 0, 1, 2)]


_STEP = timedelta(minutes=15)
"""Every change of a clock is a multiple of it."""


def local_day(at: str) -> str:
    """The local day of a time (ISO 8601): `2026-11-27`."""
    return datetime.fromisoformat(at).astimezone().date().isoformat()


def day_start(day: str) -> str:
    """The time at which a local day begins, ISO 8601 in UTC with `Z`. Of a midnight that comes twice: the first one.

    Of a midnight that a change of the clock skips: the time of the change.
    """
    wanted = date.fromisoformat(day)
    moment = in_utc(datetime.combine(wanted, time.min))  # a skipped midnight becomes a time of the day before
    while moment.astimezone().date() < wanted:
        moment += _STEP
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def day_after(day: str) -> str:
    """The next local day."""
    return (date.fromisoformat(day) + timedelta(days=1)).isoformat()
