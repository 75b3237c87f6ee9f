"""Durations as people write them."""

import pytest

from sm.core.durations import seconds_in


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90), ("30m", 1_800), ("12h", 43_200), ("1d", 86_400), ("2w", 1_209_600), ("0s", 0), ("1h30m", 5_400),
        ("2 hours", 7_200), ("30 min", 1_800), (" 1 h 5 m ", 3_900), ("1 week", 604_800),
    ],
)  # fmt: skip
def test_duration_is_read(text: str, seconds: float) -> None:
    assert seconds_in(text) == seconds


@pytest.mark.parametrize(
    "text", ["", " ", "5", "m", "5M", "5 months", "1h30", "-5m", "1.5h", "soon", "5m!", "\u0665m", "1h " * 60]
)
def test_other_text_is_no_duration(text: str) -> None:
    assert seconds_in(text) is None
