"""Text in a number of columns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.core.columns import columns, cut


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("数数", 4, "数数"),
        ("数数", 3, "数…"),
        ("数数数", 4, "数…"),
        ("abc", None, "abc"),
        ("", 0, ""),
        ("abc", 0, "…"),
    ],
)
def test_cut_marks_the_missing_end(text: str, width: int | None, shown: str) -> None:
    assert cut(text, width) == shown


@given(st.text(), st.integers(1, 100))
def test_cut_text_fits_and_a_fitting_text_is_whole(text: str, width: int) -> None:
    assert columns(cut(text, width)) <= width
    assert (cut(text, width) == text) is (columns(text) <= width or text == cut(text, width))
