"""Cards of requests, read as Telegram reads them."""

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.core.requests import Question, Request
from sm.core.states import RequestKind, RequestState, TrustLevel
from sm.telegram.request_card import RequestCard, finished_card, request_card
from sm.telegram.text import TEXT_MAX, cut_utf16, utf16_length
from tests.samples import session as sample_session
from tests.telegram_api.entities import parse_html

SESSION = replace(sample_session("1a2b3c4d"), friendly_name="engineer-task")
HOSTILE = st.text(st.characters() | st.sampled_from("<>&\"'`*_[]()\x1b\u202e\u200b\ud83d😀\n"), max_size=6000)


def permission(**arguments: Any) -> Request:
    return Request(57, SESSION.id, RequestKind.PERMISSION, RequestState.OPEN, "", "", None, "Bash", arguments)


def asking(*questions: Question, **changes: Any) -> Request:
    request = Request(57, SESSION.id, RequestKind.QUESTION, RequestState.OPEN, "", "", questions=questions)
    return replace(request, **changes)


def shown(card: RequestCard) -> str:
    text = parse_html(card.text)
    assert utf16_length(text) <= TEXT_MAX
    return text


def labels(card: RequestCard) -> list[list[str]]:
    return [[button.label for button in row] for row in card.buttons]


def test_card_of_a_permission_quotes_the_whole_arguments() -> None:
    card = request_card(SESSION, permission(command="rm -rf <b>&amp;\necho \x1b[31m", timeout=5))
    assert shown(card).splitlines() == [
        "r57: engineer-task (1a2b3c4d) asks for permission to use Bash",
        "command:",
        "  | rm -rf <b>&amp;",
        "  | echo <U+001B>[31m",
        "timeout:",
        "  | 5",
    ]
    assert labels(card) == [["Approve", "Deny"]]
    assert card.file is None


def test_long_arguments_come_as_a_file_and_the_card_names_its_digest() -> None:
    command = "x" * 3000 + "😀" * 2000 + "the end"
    card = request_card(SESSION, permission(command=command))
    assert card.file is not None
    assert card.file.content == f"command:\n  | {command}"
    text = shown(card)
    digest = hashlib.sha256(card.file.content.encode()).hexdigest()
    assert f"5,020 characters, all of them in r57.txt, SHA-256 {digest[:12]}" in text
    assert text.splitlines()[1:3] == ["command:", "  | " + "x" * 2187]
    assert "😀the end\n" in text


@given(text=HOSTILE, name=st.text(max_size=300), label=st.text(min_size=1, max_size=300))
def test_hostile_words_never_break_a_card(text: str, name: str, label: str) -> None:
    session = replace(SESSION, friendly_name=label)
    for request in (permission(**{name: text}), asking(Question(text, (text,) * 20))):
        card = request_card(session, replace(request, tool=name))
        assert shown(card).startswith("r57: ")
        assert shown(finished_card(session, request, text))
        for row in card.buttons:
            assert all(0 < len(button.label) <= 64 and "\n" not in button.label for button in row)


def test_words_of_a_sandboxed_agent_are_marked() -> None:
    session = replace(SESSION, effective_mode=TrustLevel.SANDBOXED)
    assert shown(request_card(session, permission(command="ls"))).splitlines()[0].endswith("(untrusted)")


def test_shortened_request_names_the_command_that_shows_all() -> None:
    card = request_card(SESSION, replace(permission(command="x"), cut=True))
    assert "Shortened. The whole dialog: sm attach engineer-task" in shown(card)
    assert not request_card(SESSION, asking(Question("Which?", ("a", "b")), cut=True)).buttons


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (RequestKind.PERMISSION, [["Approve", "Deny"]]),
        (RequestKind.COMPLETION, [["Approve", "Reject"]]),
        (RequestKind.SETUP, [["Approve", "Deny"]]),
    ],
)
def test_buttons_follow_the_kind(kind: RequestKind, expected: list[list[str]]) -> None:
    assert labels(request_card(SESSION, replace(asking(Question("Done?")), kind=kind))) == expected


def test_first_eight_options_are_buttons_and_the_card_lists_all() -> None:
    card = request_card(SESSION, asking(Question("Which?", tuple(f"option {n}" for n in range(1, 18)))))
    assert labels(card) == [[f"{n}: option {n}"] for n in range(1, 9)]
    assert card.buttons[7][0].choice == "option 8"
    assert "17: option 17" in shown(card)
    assert shown(card).endswith("Press a button, or reply to this message with your answer.")


@pytest.mark.parametrize(
    ("questions", "expected"),
    [
        ((Question("Why?"),), "Reply to this message with your answer."),
        (
            (Question("Which?", ("a", "b"), multiple=True),),
            "Reply to this message with the numbers of your options, such as 1,2.",
        ),
        ((Question("Which?", ("a",)), Question("Where?")), "Answer at a terminal: sm answer r57 TEXT TEXT"),
    ],
)
def test_question_without_buttons_says_how_to_answer(questions: tuple[Question, ...], expected: str) -> None:
    card = request_card(SESSION, asking(*questions))
    assert shown(card).endswith(expected)
    assert not card.buttons


def test_finished_card_keeps_what_was_decided_and_has_no_buttons() -> None:
    card = finished_card(SESSION, permission(command="ls"), "approved by @ann 15:12")
    assert shown(card).splitlines()[1:] == ["command:", "  | ls", "approved by @ann 15:12"]
    assert not card.buttons


@pytest.mark.parametrize(("limit", "expected"), [(0, ""), (1, "a"), (2, "a"), (3, "a😀"), (9, "a😀b")])
def test_text_is_cut_between_characters(limit: int, expected: str) -> None:
    assert cut_utf16("a😀b", limit) == expected
