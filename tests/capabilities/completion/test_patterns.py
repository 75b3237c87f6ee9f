"""Patterns of `completion_patterns`: the same matches as `re`, in linear time, and reasons for refused patterns."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.capabilities.completion.patterns import TEXT_MAX, CompletionPattern


@pytest.mark.parametrize(
    ("source", "text", "found"),
    [
        ("done", "All DONE here", True),
        (r"\bdone\b", "undone", False),
        ("all tests? (?:pass|passed|are green)", "so all test pass", True),
        ("^finished", "not finished", False),
        (r"finished\.$", "it is finished.", True),
        ("[0-9]{2,3} of [0-9]+", "12 of 7", True),
        ("[0-9]{2,} of", "1 of", False),
        (r"a{,2}b", "aab", True),
        (r"a{,}b", "aaaab", True),
        ("x{2}y", "xy", False),
        ("a{b", "a{b", True),
        (r"привет\s+мир", "ПРИВЕТ  МИР", True),
        ("完了", "作業が完了しました", True),
        (r"\d\d?/\d+?", "3/5", True),
        (r"[^]\s]+]", "ab]", True),
    ],
)
def test_completion_pattern_matches_like_a_regular_expression(source: str, text: str, found: bool) -> None:
    assert CompletionPattern(source).search(text) is found


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("(done", r"not a regular expression: missing \), unterminated subpattern"),
        ("*done", "nothing to repeat"),
        ("a" * 201, "201 characters, at most 200"),
        (r"(a)\1", "back-references"),
        ("(?=done)", "look-around"),
        ("(?i)done", "flags"),
        ("done*+", "possessive"),
        ("(?:a{50}){50}", "more than 300 states"),
        ("(?:a?){4000000000}", "more than 300"),
        ("a*", "empty text"),
        ("(?:){1000000000}a", "more than 300"),
        ("[[a]", "not a regular expression: Possible nested set"),
    ],
)
def test_completion_pattern_is_refused_with_its_reason(source: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        CompletionPattern(source)


@pytest.mark.parametrize(
    "source", ["(a+)+$", "(a|a)*$b", "(a*)*b", "(?:a?){30}a{30}b", "a*a*a*a*a*a*b", "(a|b|ab)*c"]
)
def test_completion_pattern_looks_at_each_character_once_when_re_would_backtrack(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0
    closure = CompletionPattern._closure

    def counted(self: CompletionPattern, states: set[int], text: str, at: int) -> set[int]:
        nonlocal steps
        steps += 1
        return closure(self, states, text, at)

    pattern = CompletionPattern(source)
    monkeypatch.setattr(CompletionPattern, "_closure", counted)
    assert not pattern.search("a" * 5000 + "!")
    assert steps == TEXT_MAX + 1


def test_completion_pattern_searches_the_end_of_a_long_text() -> None:
    assert CompletionPattern("done").search("x" * 5000 + " done")
    assert not CompletionPattern("done").search("done" + "x" * TEXT_MAX)


_ATOMS = st.sampled_from(["a", "b", "c", ".", r"\b", "^", "$", "[ab]", "[^a]", r"\w", r"\s"])
_SOURCES = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{,2}", "{1,}", "*?"])).map(
            lambda pair: f"({pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=6,
)


@given(_SOURCES, st.text("abc \n", max_size=8))
def test_completion_pattern_agrees_with_re(source: str, text: str) -> None:
    try:
        pattern = CompletionPattern(source)
    except ValueError:
        assert re.search(source, "") or len(source) > 200
        return
    assert pattern.search(text) is bool(re.search(source, text, re.IGNORECASE))
