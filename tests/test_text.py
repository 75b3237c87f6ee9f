import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.errors import TextRefused
from sm.text import accepted, folded

DANGEROUS = [
    "\x00",
    "\x03",
    "\x08",
    "\x0b",
    "\r",
    "\x1b",
    "\x7f",
    "\x85",
    "\x9b",
    "\u202e",
    "\u2066",
    "\u2069",
    "\ud800",
]


@pytest.mark.parametrize("character", DANGEROUS)
def test_a_dangerous_character_is_refused_with_its_position(character: str) -> None:
    with pytest.raises(TextRefused) as caught:
        accepted(f"ab\n{character}c", "prompt", 100)
    assert caught.value.message == f"prompt: character U+{ord(character):04X} at position 4 is not allowed"
    assert caught.value.exit_code == 2


def test_the_end_of_a_bracketed_paste_cannot_be_sent() -> None:
    with pytest.raises(TextRefused, match="U\\+001B at position 6"):
        accepted("hello\x1b[201~rm -rf /\n", "message", 100)


def test_newline_tab_and_any_script_are_kept() -> None:
    text = "zeile eins\n\tzwei — 三 👩‍💻 e\u0301"
    assert accepted(text, "prompt", 100) == unicodedata.normalize("NFC", text)


def test_carriage_return_newline_becomes_newline() -> None:
    assert accepted("a\r\nb", "prompt", 10) == "a\nb"


def test_the_limit_counts_characters_and_is_inclusive() -> None:
    assert accepted("é" * 10, "prompt", 10) == "é" * 10
    with pytest.raises(TextRefused, match="prompt: 11 characters, at most 10 are allowed"):
        accepted("é" * 11, "prompt", 10)


def test_a_text_of_one_line_has_no_newline() -> None:
    with pytest.raises(TextRefused, match="position 2 is a newline"):
        accepted("a\nb", "note", 10, one_line=True)


@given(st.text())
def test_what_is_accepted_can_be_typed_without_pressing_a_key(text: str) -> None:
    try:
        result = accepted(text, "x", 10_000)
    except TextRefused:
        return
    assert all(unicodedata.category(c) != "Cc" or c in "\n\t" for c in result)
    assert unicodedata.is_normalized("NFC", result)
    assert accepted(result, "x", 10_000) == result


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_a_folded_text_is_one_short_line_without_controls(text: str, limit: int) -> None:
    line = folded(text, limit)
    assert len(line) <= limit
    assert all(unicodedata.category(c) != "Cc" for c in line)
    assert "\u2028" not in line
    assert "\u202e" not in line


def test_folding_keeps_the_words() -> None:
    assert folded("a\n\x1b[31mb\tc") == "a [31mb c"
    assert folded("abcdef", 4) == "abc…"
