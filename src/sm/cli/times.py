"""Reads times of the day that a person types."""

from datetime import UTC, datetime, timedelta
from datetime import time as time_of_day

from sm.errors import UsageError

_HINT = "use a time of the day such as 06:00, or a date and a time such as 2026-11-27T06:00"


def next_time(text: str, now: datetime) -> datetime:
    """The next moment after `now` (with a time zone) at which the local clock shows `06:00`; or a date and a time.

    A time that a change of the clock skips comes an hour earlier; of a time that comes twice, the first one counts.
    Raises UsageError for an invalid time, and for a date and a time in the past.
    """
    try:
        wanted = time_of_day.fromisoformat(text)
    except ValueError:
        return _moment(text, now)
    if wanted.tzinfo is not None:
        raise UsageError(f"invalid time: {text!r}", _HINT)
    today = now.astimezone().date()
    for day in (today, today + timedelta(days=1)):
        # astimezone reads a time without a zone as a local one, with the offset of that day (PEP 495).
        moment = datetime.combine(day, wanted).astimezone(UTC)
        if moment > now:
            return moment
    return datetime.combine(today + timedelta(days=2), wanted).astimezone(UTC)


def _moment(text: str, now: datetime) -> datetime:
    try:
        moment = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(f"invalid time: {text!r}", _HINT) from None
    if moment <= now:
        raise UsageError(f"the time {text} is in the past", _HINT)
    return moment
