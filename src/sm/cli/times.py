"""Reads times of the day that a person types."""

import re
from datetime import UTC, datetime, timedelta
from datetime import time as time_of_day

from sm.client.http import Client
from sm.core.durations import seconds_in
from sm.core.local_times import in_utc, last_local_time, next_local_time
from sm.errors import UsageError

_HINT = "use a time of the day such as 06:00, or a date and a time such as 2026-11-27T06:00"
_PAST_HINT = (
    "use a time of the day such as 22:00, an age such as 8h, today, yesterday, or a date such as 2026-11-27"
)
_HALF_DAY = re.compile(r"(0?[1-9]|1[0-2])(?::([0-5][0-9]))?\s*([ap])\.?m\.?")
_DAYS = {"today": 0, "yesterday": 1}


def next_time(text: str, now: datetime) -> datetime:
    """The next moment after `now` (with a time zone) at which the local clock shows `06:00`; or a date and a time.

    A time that a change of the clock skips comes an hour earlier; of a time that comes twice, the first one counts.
    Raises UsageError for an invalid time, and for a date and a time in the past.
    """
    try:
        wanted = _time_of_day(text)
    except ValueError:
        return _moment(text, now)
    if wanted.tzinfo is not None:
        raise UsageError(f"invalid time: {text!r}", _HINT)
    return next_local_time(wanted, now)


def past_time(text: str, now: datetime) -> datetime:
    """The last moment until `now` at which the local clock showed `22:00`; `8h` or `2 hours ago`; or a date and a time.

    `today` and `yesterday` begin at midnight of the local clock. Raises UsageError for an invalid time, and for a time
    in the future.
    """
    if (days := _DAYS.get(text.strip().lower())) is not None:
        day = now.astimezone().date() - timedelta(days=days)
        return in_utc(datetime.combine(day, time_of_day()))
    age = 0.0 if text.strip().lower() == "now" else seconds_in(text.strip().lower().removesuffix("ago"))
    if age is not None:
        return now - timedelta(seconds=age)
    try:
        wanted = _time_of_day(text)
    except ValueError:
        moment = _parsed(text, _PAST_HINT)
        if moment > now:
            raise UsageError(f"the time {text} is in the future", _PAST_HINT) from None
        return moment
    if wanted.tzinfo is not None:
        raise UsageError(f"invalid time: {text!r}", _PAST_HINT)
    return last_local_time(wanted, now)


def _time_of_day(text: str) -> time_of_day:
    """The time in `06:00`, `6am` or `6:30 pm`. Raises ValueError."""
    found = _HALF_DAY.fullmatch(text.strip().lower())
    if found is None:
        return time_of_day.fromisoformat(text.strip())
    return time_of_day(int(found[1]) % 12 + (12 if found[3] == "p" else 0), int(found[2] or 0))


def is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def since_time(text: str, client: Client) -> str:
    """The time of `--since`, as `past_time`; a number is the `seq` of an event, whose time is meant.

    Raises UsageError.
    """
    if not is_number(text):
        return past_time(text, datetime.now(UTC)).isoformat()
    events = client.get("/v1/events", {"since": max(0, int(text) - 1), "limit": 1})["events"]
    if not events:
        raise UsageError(f"there is no event {text} or later", "list events: sm events")
    return str(events[0]["timestamp"])


def _moment(text: str, now: datetime) -> datetime:
    moment = _parsed(text)
    if moment <= now:
        raise UsageError(f"the time {text} is in the past", _HINT)
    return moment


def _parsed(text: str, hint: str = _HINT) -> datetime:
    try:
        return in_utc(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        raise UsageError(f"invalid time: {text!r}", hint) from None
