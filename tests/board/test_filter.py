"""Filter words of live views."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sm.board import parse_filter
from tests.board.samples import AT_S, row


@pytest.mark.parametrize(
    ("text", "session", "selected"),
    [
        ("", {}, True),
        ("status:waiting", {"status": "waiting_input"}, True),
        ("status:waiting_input", {"status": "waiting_input"}, True),
        ("status:waiting", {}, False),
        ("STATUS:Run", {}, True),
        ("status:live", {"status": "idle"}, True),
        ("status:ended", {"status": "killed"}, True),
        ("status:ended", {}, False),
        ("status:stale", {"status_stale": True}, True),
        ("status:stale", {"status_stale": True, "status": "completed"}, False),
        ("ws:shop", {"workspace": "shop"}, True),
        ("ws:shop", {"workspace": "shop2"}, False),
        ("ws:-", {}, True),
        ("type:engineer", {}, True),
        ("type:arch", {}, False),
        ("cost:>1", {"cost_usd": 1.0}, False),
        ("cost:>1", {"cost_usd": 1.01}, True),
        ("cost:<1", {"cost_usd": None}, True),
        ("cost:0.5", {}, True),
        ("older:10min", {"status_at": "2026-01-27T14:59:59Z"}, True),
        ("older:10m", {"status_at": "2026-01-27T15:00:01Z"}, False),
        ("older:1d", {}, False),
        ("LOGIN page", {"title": "the Page", "note": "Login"}, True),
        ("login page", {"title": "the page"}, False),
        ("half", {"completion_message": "half of it"}, True),
        ("npm", {"activity": "Bash: npm install"}, True),
        ("1a2b", {}, True),
        ("http://x", {"note": "see http://x/y"}, True),
        ("status:waiting ws:shop type:engineer", {"status": "waiting_input", "workspace": "shop"}, True),
    ],
)
def test_filter_selects_a_row(text: str, session: dict[str, Any], selected: bool) -> None:
    assert parse_filter(text).selects(row(**session), AT_S) is selected


@pytest.mark.parametrize("text", ["status:", "cost:>", "cost:x", "older:10", "older:1e9d", "cost:>٣"])
def test_incomplete_word_selects_nothing_and_excludes_nothing(text: str) -> None:
    read = parse_filter(text)
    assert read.problems
    assert read.is_empty
    assert read.selects(row(), AT_S)


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_a_filter(text: str) -> None:
    parse_filter(text).selects(row(), AT_S)
    parse_filter(f"cost:{text} older:{text} status:{text}").selects(row(), AT_S)
