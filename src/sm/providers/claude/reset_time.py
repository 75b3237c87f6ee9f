"""Reads the time at which claude's usage limit resets. Pure, except that zones come from the system's files.

Source: claude 2.1.197. It writes the time in the zone of its own process, rounded down to the minute:
`resets 5:59am (UTC)`, and `resets Nov 25, 3pm (Europe/London)` if the time is more than 24 hours away. The year stands
there only if it is not the current one. The second is in a header of the answer, `anthropic-ratelimit-unified-reset`,
which claude writes neither into its transcript nor into its hooks. So the first attempt is at the beginning of the
written minute, and one that fails within that minute is repeated soon.
"""

import re
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import cache
from zoneinfo import ZoneInfo

from sm.providers.claude.dialect import current

_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_TIME = (
    rf"(?:(?P<month>{'|'.join(_MONTHS)}) (?P<day>\d{{1,2}}), (?:(?P<year>\d{{4}}), )?)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?[ \u202f]?(?P<half>am|pm) \((?P<zone>[A-Za-z0-9_+\-/]{1,64})\)"
)
_AHEAD_MAX = timedelta(days=60)
"""No limit lasts as long: the longest ones are those of a month."""
_AGAIN = timedelta(seconds=15)
"""The pause between attempts within the written minute."""
_MINUTE = timedelta(minutes=1)
_LATE = timedelta(minutes=10)
"""A time without a date is the next one, or the last one if that was less than this ago: the message came late."""


def read_reset(text: str, at: float) -> float | None:
    """The time in `text` as seconds since the epoch, or None if it is unreadable, in an unknown zone, or before `at`.

    `at`: the time of the message, in seconds since the epoch. The limit ends within the written minute. The result is
    its beginning or, if that is past, a time soon after `at`, at most its end. An ambiguous time is the later one.
    """
    found = _reset(current().texts("error.resets")).search(text)
    zone = _zone(found["zone"]) if found else None
    if found is None or zone is None:
        return None
    hour, minute = int(found["hour"]), int(found["minute"] or 0)
    if not 1 <= hour <= 12 or minute > 59:
        return None
    hour = hour % 12 + (12 if found["half"].lower() == "pm" else 0)
    try:
        now = datetime.fromtimestamp(at, UTC)
        today = now.astimezone(zone).date()
        if found["month"]:
            month = _MONTHS.index(found["month"].title()) + 1
            days = [date(int(found["year"] or today.year), month, int(found["day"]))]
        else:
            days = [today + timedelta(days=n) for n in (-1, 0, 1)]
        ends = [_minute_end(day, hour, minute, zone) for day in days]
    except (ValueError, OverflowError):  # February 30, or the year 9999
        return None
    if not found["month"] and any(timedelta(0) <= now - end < _LATE for end in ends):
        return None
    resets = (_attempt(now, end) for end in ends if now < end < now + _AHEAD_MAX)
    return min((moment.timestamp() for moment in resets), default=None)


@cache
def _reset(words: tuple[str, ...]) -> re.Pattern[str]:
    """The pattern of a time behind one of these words."""
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, words))}) {_TIME}", re.ASCII | re.IGNORECASE)


def _attempt(now: datetime, end: datetime) -> datetime:
    """The next attempt after a message at `now` about the minute that ends at `end`."""
    begin = end - _MINUTE
    return begin if now < begin else min(now + _AGAIN, end)


def _minute_end(day: date, hour: int, minute: int, zone: tzinfo) -> datetime:
    """The end of a minute on the clock of `zone`, in UTC: of two such minutes the later one.

    A minute that the clock skips is the same number of minutes after the change.
    """
    wall = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone)
    return max(wall.replace(fold=fold).astimezone(UTC) for fold in (0, 1)) + _MINUTE


def _zone(name: str) -> tzinfo | None:
    if name.upper() in ("UTC", "GMT", "ETC/UTC"):  # also on a system without zone files
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, a path, a directory
        return None
