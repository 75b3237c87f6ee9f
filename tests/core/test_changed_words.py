"""The words that differ between a deleted line and the added line that replaces it."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.core.changed_words import Spans, changed_words


def words(line: str, spans: Spans) -> list[str]:
    return [line[begin:end] for begin, end in spans]


@pytest.mark.parametrize(
    ("old", "new", "deleted", "added"),
    [
        ("x = f(a, b)", "x = g(a, b, c)", ["f"], ["g", ", c"]),
        ("return 1", "return 22", ["1"], ["22"]),
        ("  if a:", "    if a:", ["  "], ["    "]),
        ("the same", "the same", [], []),
        ("für immer", "für wenig immer", [], ["wenig "]),
    ],
)
def test_changed_words_are_those_that_differ(
    old: str, new: str, deleted: Sequence[str], added: Sequence[str]
) -> None:
    before, after = changed_words([old], [new])
    assert (words(old, before[0]), words(new, after[0])) == (deleted, added)


@pytest.mark.parametrize(("old", "new"), [("abc", "x y z"), ("", "a"), ("a", ""), ("x" * 600, "x" * 601)])
def test_lines_with_little_in_common_and_long_ones_have_no_changed_words(old: str, new: str) -> None:
    assert changed_words([old], [new]) == ({}, {})


def test_line_is_compared_with_the_added_line_that_resembles_it() -> None:
    before, after = changed_words(["a = first()", "b = second()"], ["# new", "a = third()", "b = second(1)"])
    assert list(before) == [0, 1]
    assert list(after) == [1, 2]


@given(st.lists(st.text(max_size=30), max_size=6), st.lists(st.text(max_size=30), max_size=6))
def test_places_are_in_the_line_in_order(old: list[str], new: list[str]) -> None:
    for lines, found in zip((old, new), changed_words(old, new), strict=True):
        for number, spans in found.items():
            edges = [edge for span in spans for edge in span]
            assert edges == sorted(edges)
            assert not edges or edges[-1] <= len(lines[number])
