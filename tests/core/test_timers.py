"""Tests of the time until a timer is due."""

from datetime import datetime

import pytest

from sm.capabilities.completion.model import CompletionTimer
from sm.core.timers import Timer

AT = "2026-01-27T15:10:00.000Z"
AT_S = datetime.fromisoformat(AT).timestamp()
HOUR_S = 3600.0


@pytest.mark.parametrize(
    ("within_s", "wall_s", "left_s"),
    [
        (None, AT_S - 5, 5),
        (None, AT_S + 5, -5),
        (None, AT_S - HOUR_S, HOUR_S),
        (10.0, AT_S - 5, 5),
        (10.0, AT_S + 5, -5),
        # The system clock was set back: the wait does not become longer.
        (10.0, AT_S - HOUR_S, 10),
    ],
)
def test_timer_waits_until_its_time_and_never_beyond_its_wait(
    within_s: float | None, wall_s: float, left_s: float
) -> None:
    assert Timer("aaaa1111", CompletionTimer.COMPLETION, AT, within_s).seconds_left(wall_s) == left_s
