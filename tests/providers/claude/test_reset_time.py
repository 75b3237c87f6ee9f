"""The times in claude's usage limit messages."""

from datetime import UTC, datetime

import pytest

from sm.providers.claude.reset_time import read_reset

NOON = "2026-11-22 12:00"


def seconds(at: str) -> float:
    return datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "at", "expected"),
    [
        # The minute is rounded down, so the limit ends within it: an attempt at its beginning may be in time.
        ("You've hit your session limit \u00b7 resets 5:59am (UTC)", NOON, "2026-11-23 05:59"),
        ("resets 3pm (UTC)", NOON, "2026-11-22 15:00"),
        ("resets 3PM (UTC)", NOON, "2026-11-22 15:00"),
        ("resets 3\u202fpm (UTC)", NOON, "2026-11-22 15:00"),
        ("resets 12am (UTC)", NOON, "2026-11-23 00:00"),
        ("resets 12:30pm (UTC)", NOON, "2026-11-22 12:30"),
        ("resets 12pm (UTC)", NOON, "2026-11-22 12:00"),
        # Other zones
        ("resets 5:59am (America/New_York)", NOON, "2026-11-23 10:59"),
        ("resets 8am (America/New_York)", NOON, "2026-11-22 13:00"),
        ("resets 2am (Asia/Tokyo)", NOON, "2026-11-22 17:00"),
        ("resets 6:44pm (Asia/Kathmandu)", NOON, "2026-11-22 12:59"),
        ("resets 9am (Etc/GMT+5)", NOON, "2026-11-22 14:00"),
        # More than 24 hours away
        ("resets Nov 25, 3pm (Europe/London)", NOON, "2026-11-25 15:00"),
        ("resets Nov 25, 3:30pm (Europe/London)", NOON, "2026-11-25 15:30"),
        ("resets Jan 3, 2027, 9am (UTC)", "2026-12-30 12:00", "2027-01-03 09:00"),
        # Days with a clock change: the later of two times, and the minutes after a gap
        ("resets 1:30am (Europe/London)", "2026-10-24 22:00", "2026-10-25 01:30"),
        ("resets 1:30am (Europe/London)", "2026-10-25 00:50", "2026-10-25 01:30"),
        ("resets 2:30am (Europe/London)", "2026-10-24 22:00", "2026-10-25 02:30"),
        ("resets 1:30am (Europe/London)", "2026-03-28 22:00", "2026-03-29 01:30"),
        ("resets 3am (Europe/London)", "2026-03-28 22:00", "2026-03-29 02:00"),
    ],
)
def test_reset_is_the_beginning_of_the_written_minute(text: str, at: str, expected: str) -> None:
    found = read_reset(text, seconds(at))
    assert found is not None
    assert datetime.fromtimestamp(found, UTC).strftime("%Y-%m-%d %H:%M") == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "resets",
        "resets soon",
        "resets 3pm",
        "resets in 3 hours",
        "resets 3pm (Mars/Olympus)",
        "resets 3pm (Europe)",
        "resets 3pm (../../etc/passwd)",
        "resets 3pm (/etc/passwd)",
        "resets 15:00 (UTC)",
        "resets 13pm (UTC)",
        "resets 0am (UTC)",
        "resets 5:60am (UTC)",
        "resets Feb 30, 3pm (UTC)",
        "resets Nov 0, 3pm (UTC)",
        "resets Nov 20, 3pm (UTC)",
        "resets Nov 25, 2025, 3pm (UTC)",
        "resets Nov 25, 0000, 3pm (UTC)",
        "resets Dec 31, 9999, 11:59pm (Pacific/Kiritimati)",
        "resets 11:55am (UTC)",
        f"resets 3pm ({'A' * 50_000})",
        "resets " * 10_000,
    ],
)
def test_reset_is_unknown_when_it_is_unreadable_or_past(text: str) -> None:
    assert read_reset(text, seconds(NOON)) is None


@pytest.mark.parametrize(("second", "expected"), [(-1, 0), (0, 15), (1, 16), (40, 55), (50, 60), (59.5, 60)])
def test_attempt_that_fails_within_the_written_minute_is_repeated_soon(
    second: float, expected: float
) -> None:
    noon = seconds(NOON)
    assert read_reset("resets 12pm (UTC)", noon + second) == noon + expected
