"""Days of the local clock, also those with a change to or from summer time. Pure."""

from datetime import UTC, date, datetime, time, timedelta

_STEP = timedelta(minutes=15)
"""Every change of a clock is a multiple of it."""


def local_day(at: str) -> str:
    """The local day of a time (ISO 8601): `2026-11-27`."""
    return datetime.fromisoformat(at).astimezone().date().isoformat()


def day_start(day: str) -> str:
    """The time at which a local day begins, ISO 8601 in UTC with `Z`. Of a midnight that comes twice: the first one.

    Of a midnight that a change of the clock skips: the time of the change.
    """
    # astimezone reads a time without a zone as a local one, with the offset of that day (PEP 495). A skipped time
    # becomes one before the change, still on the day before.
    wanted = date.fromisoformat(day)
    moment = datetime.combine(wanted, time.min).astimezone(UTC)
    while moment.astimezone().date() < wanted:
        moment += _STEP
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def day_after(day: str) -> str:
    """The next local day."""
    return (date.fromisoformat(day) + timedelta(days=1)).isoformat()
