"""The summary of a final message: its first paragraph."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.capabilities.completion.rules.turn_end import summary


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Done. All tests passing.", "Done. All tests passing."),
        ("## Summary\n\nThe parser\nis **fixed**.\n\nMore text.", "The parser is fixed."),
        ("**Result**\n\n- one\n- [x] two\n\nrest", "one two"),
        ("```\n$ make\nok\n```\n\nBuilt the wheel.", "Built the wheel."),
        ("```\nok\n```", "ok"),
        ("# Done", "Done"),
        ("> quoted\n\nrest", "quoted"),
        ("", ""),
        (" \n\n---\n\nText", "Text"),
        ("uses __init__ and 2 * 3 * 4", "uses __init__ and 2 * 3 * 4"),
    ],
)
def test_summary_is_the_first_paragraph_without_marks(text: str, expected: str) -> None:
    assert summary(text) == expected


def test_summary_is_cut_to_five_hundred_characters() -> None:
    cut = summary("word " * 10_000)
    assert len(cut) == 500
    assert cut.endswith("…")


@given(st.text(max_size=300))
def test_summary_is_one_line(text: str) -> None:
    found = summary(text)
    assert len(found) <= 500
    assert found == " ".join(found.split())
