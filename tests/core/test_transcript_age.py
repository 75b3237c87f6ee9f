"""The time of the warning that a transcript will be deleted."""

import pytest

from sm.sessions.transcript_watch import expires_in_s, is_about_to_expire

DAY = 86_400.0


@pytest.mark.parametrize(
    ("days", "age_days", "expected"),
    [
        (30, 0, False),
        (30, 27.5, False),
        (30, 28, True),
        (30, 31, True),
        (1, 0.4, False),
        (1, 0.5, True),
        (3, 1.6, True),
    ],
)
def test_warning_comes_two_days_before_or_in_the_second_half(
    days: int, age_days: float, expected: bool
) -> None:
    assert is_about_to_expire(0.0, days, age_days * DAY) is expected
    assert expires_in_s(0.0, days, age_days * DAY) == pytest.approx((days - age_days) * DAY)
