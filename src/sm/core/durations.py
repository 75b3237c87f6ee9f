"""Reads durations that people write, such as `90s`, `1h30m` and `2 hours`. Pure."""

import re

_SECONDS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3_600),
    **dict.fromkeys(("d", "day", "days"), 86_400),
    **dict.fromkeys(("w", "week", "weeks"), 604_800),
}
_PART = re.compile(r"([0-9]{1,6})\s*([a-z]{1,7})\s*")
_TEXT_MAX = 100


def seconds_in(text: str) -> float | None:
    """The seconds of a duration; None if the text is none. A number needs its unit."""
    rest = text.strip()
    if len(rest) > _TEXT_MAX:
        return None
    total, place = 0, 0
    while place < len(rest):
        part = _PART.match(rest, place)
        if part is None or part[2] not in _SECONDS:
            return None
        total, place = total + int(part[1]) * _SECONDS[part[2]], part.end()
    return float(total) if rest else None
