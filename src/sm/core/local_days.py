"""Days of the local clock, also those with a change to or from summer time. Pure."""

from datetime import date, datetime, time, timedelta

from sm.core.local_times import in_utc

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
