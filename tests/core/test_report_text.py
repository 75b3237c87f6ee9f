"""The words of an agent about itself are normalized and never refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.core.text import validate_text
from sm.sessions.reports import normalize_report


@pytest.mark.parametrize(
    ("text", "kept", "changes"),
    [
        ("running the tests", "running the tests", ()),
        ("", "", ()),
        ("  two\r\n  lines \n", "two lines", ("note: put on one line",)),
        ("\x1b[31mred\x1b[0m and \x07bell", "red and bell", ("note: left out control characters",)),
        ("half \ud83d", "half", ("note: left out control characters",)),
        ("right \u202e left", "right  left", ("note: left out control characters",)),
        ("x" * 21, "x" * 19 + "\u2026", ("note: cut to 20 characters",)),
        ("\n" * 1000 + "end", "end", ()),
        ("u\u0308" * 20, "\u00fc" * 20, ()),
        ("a" + "\u0308" * 100_000, "\u00e4" + "\u0308" * 18 + "\u2026", ("note: cut to 20 characters",)),
    ],
)
def test_note_is_one_short_line_and_every_change_is_told(
    text: str, kept: str, changes: tuple[str, ...]
) -> None:
    assert normalize_report(text, "note", 20, one_line=True) == (kept, changes)


def test_result_keeps_its_lines() -> None:
    assert normalize_report("a\r\n\tb\n", "message", 100) == ("a\n\tb\n", ())


@given(st.text(st.characters(codec=None)), st.booleans())
def test_any_text_becomes_one_that_is_accepted(text: str, one_line: bool) -> None:
    kept, _ = normalize_report(text, "note", 30, one_line=one_line)
    assert validate_text(kept, "note", 30, one_line=one_line) == kept
    assert normalize_report(kept, "note", 30, one_line=one_line) == (kept, ())
