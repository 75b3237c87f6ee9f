"""Runs of styled text from the escape sequences of a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.core.styled_text import styled_runs


@pytest.mark.parametrize(
    ("line", "runs"),
    [
        ("plain", [("plain", "")]),
        ("", []),
        ("\x1b[1mbold\x1b[0m not", [("bold", "bold"), (" not", "")]),
        ("\x1b[1;31mred\x1b[39m still bold", [("red", "bold fg:1"), (" still bold", "bold")]),
        ("\x1b[92;101mbright", [("bright", "bg:9 fg:10")]),
        ("\x1b[38;5;208morange\x1b[m", [("orange", "fg:208")]),
        ("\x1b[48;2;1;2;255mblue", [("blue", "bg:#0102ff")]),
        ("\x1b[38:2::1:2:3mcolons", [("colons", "fg:#010203")]),
        ("\x1b[2;7mdim\x1b[22mreverse", [("dim", "dim reverse"), ("reverse", "reverse")]),
        ("\x1b[4:3mcurly\x1b[4:0mnone", [("curly", "underline"), ("none", "")]),
        ("\x1b[38;5;999mbad\x1b[58;5;1m\x1b[999mbad", [("badbad", "")]),
        ("\x0elqk\x0f lqk", [("┌─┐ lqk", "")]),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", [("link", "")]),
        ("a\x07b\x9bc", [("abc", "")]),
    ],
)
def test_line_becomes_runs(line: str, runs: list[tuple[str, str]]) -> None:
    assert styled_runs([line]) == [tuple(runs)]


def test_style_continues_on_the_next_line() -> None:
    assert styled_runs(["\x1b[1ma", "b\x1b[0m", "c"]) == [(("a", "bold"),), (("b", "bold"),), (("c", ""),)]


@given(st.lists(st.text(st.sampled_from("\x1b[0;:18345m\x0e\x0fab]\\"))))
def test_no_run_has_control_characters(lines: list[str]) -> None:
    for runs in styled_runs(lines):
        assert all(text and text.isprintable() for text, _ in runs)
