"""Tests of timestamps."""

import pytest

from sm.core.timestamps import is_later, iso

NOW_S = 1_800_000_000.0
NOW, BEFORE, EARLIER, AHEAD = (iso(NOW_S + seconds) for seconds in (0, -5, -3600, 3600))


@pytest.mark.parametrize(
    ("at", "known", "expected"),
    [
        (NOW, None, True),
        (NOW, BEFORE, True),
        (BEFORE, BEFORE, False),
        (EARLIER, BEFORE, False),
        (BEFORE, NOW, False),
        (NOW, AHEAD, True),
        (EARLIER, AHEAD, True),
        (AHEAD, AHEAD, False),
    ],
)
def test_time_is_later_unless_the_known_one_is_ahead_of_the_clock(
    at: str, known: str | None, expected: bool
) -> None:
    assert is_later(at, known, NOW) is expected
