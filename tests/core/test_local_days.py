"""Days of the local clock, also where a change of the clock skips or repeats midnight."""

import time
from collections.abc import Iterator

import pytest

from sm.core.local_times import day_after, day_start, local_day

BEIRUT = "EET-2EEST,M3.5.0/0,M10.5.0/0"
"""Summer time begins at midnight, which the clock skips, and ends at midnight, so that 23:00 comes twice."""


@pytest.fixture
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("zone", "day", "start"),
    [
        ("UTC", "2026-03-29", "2026-03-29T00:00:00.000Z"),
        (BEIRUT, "2026-03-28", "2026-03-27T22:00:00.000Z"),
        (BEIRUT, "2026-03-29", "2026-03-28T22:00:00.000Z"),  # 01:00 of the local clock
        (BEIRUT, "2026-03-30", "2026-03-29T21:00:00.000Z"),
    ],
    indirect=["zone"],
)
@pytest.mark.usefixtures("zone")
def test_day_starts_at_midnight_or_at_the_change_that_skips_it(day: str, start: str) -> None:
    assert day_start(day) == start
    assert local_day(start) == day


@pytest.mark.parametrize("zone", ["UTC", BEIRUT], indirect=True)
@pytest.mark.usefixtures("zone")
def test_start_of_each_day_of_a_year_is_on_that_day_and_rises() -> None:
    day, before = "2026-01-01", ""
    for _ in range(365):
        start = day_start(day)
        assert local_day(start) == day
        assert start > before
        day, before = day_after(day), start
