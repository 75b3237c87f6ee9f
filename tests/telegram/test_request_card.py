"""Cards of requests, read as Telegram reads them."""

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.core.requests import Question, Request
from sm.core.states import RequestKind, RequestState, TrustLevel
from sm.telegram.request_card import (
    CardState,
    RequestCard,
    finished_card,
    pressed_done,
    pressed_option,
    request_card,
)
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
    assert labels(card) == [["Approve", "Deny"], ["Deny with a reason"]]
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
    ("kind", "plan", "expected"),
    [
        (RequestKind.PERMISSION, "Do it.", [["Approve", "Reject"], ["Reject with a reason"]]),
        (RequestKind.COMPLETION, None, [["Approve", "Reject"], ["Reject with a reason"]]),
        (RequestKind.SETUP, None, [["Approve", "Deny"]]),
    ],
)
def test_buttons_follow_the_kind(kind: RequestKind, plan: str | None, expected: list[list[str]]) -> None:
    request = replace(asking(Question("Done?")), kind=kind, tool="ExitPlanMode", arguments={"plan": "Do it."})
    card = request_card(SESSION, request, plan=plan)
    assert labels(card) == expected
    assert ("plan" in shown(card).splitlines()[0]) == (plan is not None)


def test_options_are_buttons_on_pages_of_eight() -> None:
    request = asking(Question("Which?", tuple(f"option {n}" for n in range(1, 18))))
    first, second, last = (request_card(SESSION, request, state=CardState(page=page)) for page in range(3))
    assert labels(first)[0] == ["1: option 1"]
    assert labels(first)[7:] == [["8: option 8"], ["More options"]]
    assert labels(second)[8:] == [["Earlier options", "More options"]]
    assert labels(last) == [["17: option 17"], ["Earlier options"]]
    assert last.buttons[0][0].choice == "option 16"
    assert first.buttons[-1][0].choice == "page 1"


def test_several_options_are_ticked_before_done() -> None:
    question = Question("Which?", ("a", "b", "c"), multiple=True)
    request = asking(question)
    assert labels(request_card(SESSION, request)) == [["☐ 1: a"], ["☐ 2: b"], ["☐ 3: c"]]
    state = pressed_option(question, CardState(), 2)
    state = pressed_option(question, state, 0)
    state = pressed_option(question, pressed_option(question, state, 1), 1)
    assert labels(request_card(SESSION, request, state=state)) == [
        ["☑ 1: a"],
        ["☐ 2: b"],
        ["☑ 3: c"],
        ["Done"],
    ]
    assert pressed_done(state).answers == ("1,3",)


def test_several_questions_are_answered_one_after_the_other() -> None:
    first, second = Question("Which?", ("a", "b")), Question("Where?", ("here", "there"))
    request = asking(first, second)
    card = request_card(SESSION, request)
    assert labels(card) == [["1: a"], ["2: b"]]
    assert "question 1 of 2" in shown(card)
    state = pressed_option(first, CardState(), 1)
    assert labels(request_card(SESSION, request, state=state)) == [["1: here"], ["2: there"]]
    state = pressed_option(second, state, 0)
    assert state.answers == ("2", "1")
    assert not request_card(SESSION, request, state=state).buttons


def test_finished_card_keeps_what_was_decided_and_has_no_buttons() -> None:
    card = finished_card(SESSION, permission(command="ls"), "approved by @ann 15:12")
    assert shown(card).splitlines()[1:] == ["command:", "  | ls", "approved by @ann 15:12"]
    assert not card.buttons


@pytest.mark.parametrize(("limit", "expected"), [(0, ""), (1, "a"), (2, "a"), (3, "a😀"), (9, "a😀b")])
def test_text_is_cut_between_characters(limit: int, expected: str) -> None:
    assert cut_utf16("a😀b", limit) == expected
