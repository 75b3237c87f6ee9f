"""UTC timestamps as ISO 8601 text with `Z`."""

from datetime import UTC, datetime


def iso(seconds: float) -> str:
    """Seconds since the epoch as ISO 8601 in UTC with `Z`, to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def later(at: str, seconds: float) -> str:
    """`seconds` after the time `at`, both ISO 8601 with `Z`."""
    return iso(epoch_s(at) + seconds)


def epoch_s(at: str) -> float:
    """The time `at` (ISO 8601) in seconds since the epoch."""
    return datetime.fromisoformat(at).timestamp()


def is_later(at: str, known: str | None, now: str) -> bool:
    """Return whether `at` is later than `known`. Ignores a `known` ahead of `now`: the clock has been set back."""
    return known is None or at > known or (known > now and at != known)


def span(seconds: float, minute: str = "min") -> str:
    """Format a duration as `10s`, `5min`, `2h` or `3d`, rounded down. `minute`: the unit of minutes."""
    for unit_s, unit in ((86400, "d"), (3600, "h"), (60, minute)):
        if seconds >= unit_s:
            return f"{int(seconds) // unit_s}{unit}"
    return f"{int(seconds)}s"
