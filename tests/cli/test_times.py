"""Times of the day that a person types, also on days with a change of the clock."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from sm.cli.times import is_number, next_time, past_time
from sm.errors import UsageError


@pytest.fixture(autouse=True)
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Winter time is UTC+1 and summer time UTC+2, without a database of time zones."""
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("now", "text", "expected"),
    [
        ("2026-11-26T18:00", "today", "2026-11-25T23:00"),
        ("2026-11-26T23:30", "Today", "2026-11-26T23:00"),
        ("2026-11-26T18:00", "yesterday", "2026-11-24T23:00"),
        ("2026-03-29T12:00", "today", "2026-03-28T23:00"),
        ("2026-03-29T12:00", "yesterday", "2026-03-27T23:00"),
        ("2026-03-30T12:00", "yesterday", "2026-03-28T23:00"),
    ],
)
def test_day_begins_at_midnight_of_the_local_clock(now: str, text: str, expected: str) -> None:
    found = past_time(text, datetime.fromisoformat(now).replace(tzinfo=UTC))
    assert found == datetime.fromisoformat(expected).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "text", "expected"),
    [
        ("2026-11-26T18:00", "06:00", "2026-11-27T05:00"),
        ("2026-11-26T04:59", "06:00", "2026-11-26T05:00"),
        ("2026-11-26T05:00", "06:00", "2026-11-27T05:00"),  # this minute has begun
        ("2026-03-28T22:00", "06:00", "2026-03-29T04:00"),  # summer time begins at 01:00 UTC
        ("2026-03-28T22:00", "02:30", "2026-03-29T00:30"),  # the clock skips this time
        ("2026-03-28T22:00", "2026-03-29T02:30", "2026-03-29T00:30"),
        ("2026-10-24T22:00", "02:30", "2026-10-25T00:30"),  # this time comes twice
        ("2026-10-24T22:00", "06:00", "2026-10-25T05:00"),
        ("2026-11-26T18:00", "2026-11-28T06:00", "2026-11-28T05:00"),
        ("2026-11-26T18:00", "2026-11-28T06:00+00:00", "2026-11-28T06:00"),
    ],
)
def test_next_time_is_the_first_moment_after_now(now: str, text: str, expected: str) -> None:
    found = next_time(text, datetime.fromisoformat(now).replace(tzinfo=UTC))
    assert found == datetime.fromisoformat(expected).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["", "25:00", "6 o'clock", "06:00+01:00", "2026-11-25T06:00", "0001-01-01", "nan"]
)
def test_next_time_refuses_what_is_no_time_or_over(text: str) -> None:
    with pytest.raises(UsageError):
        next_time(text, datetime(2026, 11, 26, 18, tzinfo=UTC))


@pytest.mark.parametrize(
    ("now", "text", "expected"),
    [
        ("2026-11-27T05:00", "22:00", "2026-11-26T21:00"),
        ("2026-11-27T05:00", "06:00", "2026-11-27T05:00"),
        ("2026-11-27T04:59", "06:00", "2026-11-26T05:00"),
        ("2026-03-29T04:00", "22:00", "2026-03-28T21:00"),  # summer time began between
        ("2026-11-27T05:00", "8h", "2026-11-26T21:00"),
        ("2026-11-27T05:00", "2026-11-26T22:00", "2026-11-26T21:00"),
    ],
)
def test_past_time_is_the_last_moment_until_now(now: str, text: str, expected: str) -> None:
    found = past_time(text, datetime.fromisoformat(now).replace(tzinfo=UTC))
    assert found == datetime.fromisoformat(expected).replace(tzinfo=UTC)


@pytest.mark.parametrize("text", ["tomorrow", "25:00", "8x", "-8h", "2026-11-28T06:00", "06:00+01:00", ""])
def test_past_time_refuses_what_is_no_time_or_in_the_future(text: str) -> None:
    with pytest.raises(UsageError):
        past_time(text, datetime(2026, 11, 26, 18, tzinfo=UTC))


@pytest.mark.parametrize(
    ("text", "number"), [("0", True), ("17", True), ("", False), ("²", False), ("8h", False)]
)
def test_number_has_digits_that_int_reads(text: str, number: bool) -> None:
    assert is_number(text) == number
