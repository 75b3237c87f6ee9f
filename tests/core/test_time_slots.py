"""Slots of a quarter of an hour, and the local days that they belong to."""

from zoneinfo import ZoneInfo

import pytest

from sm.core.time_slots import local_day, slot_at, split
from sm.core.timestamps import epoch_s


@pytest.mark.parametrize(
    ("at", "slot"),
    [
        ("2026-01-31T10:00:00.000Z", "2026-01-31T10:00"),
        ("2026-01-31T10:14:59.999Z", "2026-01-31T10:00"),
        ("2026-01-31T10:15:00.000Z", "2026-01-31T10:15"),
        ("2026-01-31T23:59:00.000Z", "2026-01-31T23:45"),
    ],
)
def test_slot_at_is_the_beginning_of_the_quarter(at: str, slot: str) -> None:
    assert slot_at(epoch_s(at)) == slot


def test_split_gives_each_slot_its_seconds() -> None:
    found = list(split("2026-01-31T23:50:00.000Z", 1500))
    assert found == [
        ("2026-01-31T23:45", 600),
        ("2026-02-01T00:00", 900),
    ]
    assert sum(seconds for _, seconds in split("2026-01-31T23:50:00.123Z", 12_345.5)) == pytest.approx(
        12_345.5
    )


def test_split_puts_the_time_of_a_clock_that_was_set_into_one_slot() -> None:
    assert list(split("2026-01-31T10:20:00.000Z", 1e9)) == [("2026-01-31T10:15", 1e9)]
    month_s = 31 * 86_400.0
    assert len(list(split("2026-01-31T10:15:00.000Z", month_s))) == 31 * 24 * 4
    assert list(split("2026-01-31T10:15:00.000Z", month_s + 1)) == [("2026-01-31T10:15", month_s + 1)]


@pytest.mark.parametrize(("since", "seconds"), [("", 5), ("yesterday", 5), ("2026-01-31T10:00:00Z", -5)])
def test_split_is_empty_without_a_valid_time(since: str, seconds: float) -> None:
    assert list(split(since, seconds)) == []


@pytest.mark.parametrize(
    ("at", "zone", "day"),
    [
        ("2026-01-31T23:45", "UTC", "2026-01-31"),
        ("2026-01-31T23:45", "Europe/Berlin", "2026-02-01"),
        ("2026-01-31T04:59:00.000Z", "America/New_York", "2026-01-30"),
        ("2026-01-31T18:15", "Asia/Kathmandu", "2026-02-01"),
        # The day on which the clock is set forward begins at 23:00 UTC, and ends at 22:00 UTC.
        ("2026-03-28T23:00", "Europe/Berlin", "2026-03-29"),
        ("2026-03-29T21:45", "Europe/Berlin", "2026-03-29"),
        ("2026-03-29T22:00", "Europe/Berlin", "2026-03-30"),
        ("", "UTC", None),
        ("soon", "UTC", None),
    ],
)
def test_local_day_of_a_slot(at: str, zone: str, day: str | None) -> None:
    assert local_day(at, ZoneInfo(zone)) == day
