"""Names of sessions and requests in the forms in which people and agents write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.core.reference import bare, chosen, request_number, session_word


@pytest.mark.parametrize(
    "text",
    [
        "1a2b3c4d", "1A2B3C4D", "#1a2b3c4d", "@1a2b3c4d", "`1a2b3c4d`", "'1a2b3c4d'", " 1a2b3c4d\n", "session 1a2b3c4d",
        "session:1a2b3c4d", "Session `1a2b3c4d`.", "1a2b3c4d:", "engineer-login (1a2b3c4d)",
        "“engineer-login (1a2b3c4d)”",
    ],
)  # fmt: skip
def test_word_of_a_session_is_its_id(text: str) -> None:
    assert session_word(text) == "1a2b3c4d"


@pytest.mark.parametrize(
    "text", ["engineer-login", "session", "me", "a b", "engineer-login (the first)", "", "x" * 1000]
)
def test_other_text_is_its_own_word(text: str) -> None:
    assert session_word(text) == text


@pytest.mark.parametrize("text", ["r57", "R57", "#57", "#r57", "`r57`", "r57.", "request r57", " r57\n"])
def test_number_of_a_request_is_read(text: str) -> None:
    assert request_number(text) == 57


@pytest.mark.parametrize(
    "text", ["57", "request 57", "r0", "r057", "r57 r58", "rr57", "r5x", "", "r" + "1" * 400]
)
def test_other_text_is_no_number_of_a_request(text: str) -> None:
    assert request_number(text) is None


@given(st.text(max_size=400))
def test_every_text_is_read(text: str) -> None:
    assert bare(bare(text)) == bare(text)
    assert session_word(text) == session_word(text).lower()
    request_number(text)


def test_choice_is_found_by_its_words() -> None:
    statuses = ["ended", "completed", "waiting_input", "error"]
    assert chosen(statuses, "Waiting input") == "waiting_input"
    assert chosen(statuses, "done") == "ended"
    assert chosen(statuses[1:], "`done`") == "completed"
    assert chosen(statuses, "failed") == "error"
    assert chosen(statuses, "later") is None
    assert chosen(["on-failure"], "on_failure") == "on-failure"
