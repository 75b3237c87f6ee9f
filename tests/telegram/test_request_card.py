"""Cards of requests, read as Telegram reads them."""

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.core.requests import Question, Request
from sm.core.states import RequestKind, RequestState, TrustLevel
from sm.core.telegram_model import CardDraft
from sm.core.telegram_text import TEXT_MAX, cut_utf16, utf16_length
from sm.telegram.request_card import RequestCard, finished_card, request_card, words_of
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


def test_card_asks_for_the_reason_after_its_button() -> None:
    card = request_card(SESSION, permission(command="ls"), draft=CardDraft("", 0, reason_from=1001))
    assert shown(card).endswith("Reply to this message with the reason of your denial.")
    assert labels(card) == [["Approve", "Deny"]]


def test_card_of_a_plan_quotes_the_plan() -> None:
    card = request_card(SESSION, permission(plan="raw"), plan="1. <look>\n2. leap")
    assert shown(card).splitlines() == [
        "r57: engineer-task (1a2b3c4d) asks to approve its plan",
        "  | 1. <look>",
        "  | 2. leap",
    ]
    assert labels(card) == [["Approve", "Reject"]]
    over = finished_card(SESSION, permission(plan="raw"), "approved", plan="1. <look>")
    assert shown(over).splitlines()[1:] == ["  | 1. <look>", "approved"]


def test_long_plan_comes_as_a_file() -> None:
    card = request_card(SESSION, permission(), plan="step\n" * 2000)
    assert card.file is not None
    assert card.file.content.count("| step") == 2000
    assert "all of them in r57.txt" in shown(card)


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
    drafts = (CardDraft("", 0), CardDraft("", 0, ("1", text, text), (1,), 1), CardDraft("", 0, (text,)))
    question = Question(text, (text,) * 20, multiple=True)
    for request, draft in (
        (permission(**{name: text}), drafts[0]),
        (asking(question), drafts[0]),
        (asking(*(question,) * 4), drafts[1]),
        (asking(*(question,) * 4, agent=label), drafts[2]),
    ):
        card = request_card(session, replace(request, tool=name), draft=draft)
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
        (RequestKind.PERMISSION, [["Approve", "Deny"], ["Deny with a reason"]]),
        (RequestKind.COMPLETION, [["Approve", "Reject"]]),
        (RequestKind.SETUP, [["Approve", "Deny"]]),
        (RequestKind.BUDGET, [["Approve", "Deny"]]),
    ],
)
def test_buttons_follow_the_kind(kind: RequestKind, expected: list[list[str]]) -> None:
    assert labels(request_card(SESSION, replace(asking(Question("Done?")), kind=kind))) == expected


def many(count: int, *, multiple: bool = False) -> Question:
    return Question("Which?", tuple(f"option {n}" for n in range(1, count + 1)), multiple)


def test_options_have_eight_buttons_on_a_page_and_the_card_lists_all() -> None:
    card = request_card(SESSION, asking(many(17)))
    assert labels(card) == [*([f"{n}: option {n}"] for n in range(1, 9)), ["More options"]]
    assert card.buttons[7][0].choice == "option 0 8"
    assert "17: option 17" in shown(card)
    assert shown(card).endswith("Press a button, or reply to this message with your answer.")
    middle = request_card(SESSION, asking(many(17)), draft=CardDraft("", 0, page=1))
    assert labels(middle)[0] == ["9: option 9"]
    assert labels(middle)[-1] == ["Previous options", "More options"]
    assert [button.choice for button in middle.buttons[-1]] == ["page 0 0", "page 0 2"]
    last = request_card(SESSION, asking(many(17)), draft=CardDraft("", 0, page=99))
    assert labels(last) == [["17: option 17"], ["Previous options"]]
    assert labels(request_card(SESSION, asking(many(8))))[-1] == ["8: option 8"]


def test_several_choices_have_ticks_and_done() -> None:
    request = asking(many(2, multiple=True))
    card = request_card(SESSION, request, draft=CardDraft("", 0, ticked=(2,)))
    assert labels(card) == [["☐ 1: option 1"], ["☑ 2: option 2"], ["Done"]]
    choices = [row[0].choice for row in card.buttons]
    assert choices == ["tick 0 1 on", "tick 0 2 off", "done 0"]
    assert shown(card).endswith("Tick options and press Done, or reply to this message with your answer.")


def test_several_questions_come_one_after_the_other() -> None:
    request = asking(many(2), Question("Why?"), Question("How?"))
    first = shown(request_card(SESSION, request))
    assert "Question 1 of 3:" in first
    assert "Why?" not in first
    draft = CardDraft("", 0, ("2", "because <b>"))
    card = request_card(SESSION, request, draft=draft)
    assert shown(card).splitlines()[1:] == [
        "Answer 1: option 2",
        "Answer 2: because <b>",
        "Question 3 of 3:",
        "  | How?",
        "Reply to this message with your answer.",
    ]
    assert labels(card) == [["Start again"]]
    over = shown(finished_card(SESSION, request, "answered"))
    assert "Which?" in over
    assert "How?" in over


def test_file_of_a_long_question_has_all_questions() -> None:
    request = asking(Question("x" * 4000), Question("Why?"))
    card = request_card(SESSION, request)
    assert card.file is not None
    assert "Why?" in card.file.content
    digest = hashlib.sha256(card.file.content.encode()).hexdigest()[:12]
    assert f"all of them in r57.txt, SHA-256 {digest}" in shown(card)
    assert "all of them" not in shown(request_card(SESSION, request, draft=CardDraft("", 0, ("a",))))


def test_question_without_options_asks_for_a_reply() -> None:
    card = request_card(SESSION, asking(Question("Why?")))
    assert shown(card).endswith("Reply to this message with your answer.")
    assert not card.buttons


@pytest.mark.parametrize(
    ("answer", "expected"),
    [("2", "option 2"), ("1,3", "option 1, option 3"), ("4", "4"), ("1,x", "1,x"), ("0", "0"), ("", "")],
)
def test_numbers_of_options_are_shown_as_their_words(answer: str, expected: str) -> None:
    assert words_of(many(3), answer) == expected


def test_finished_card_keeps_what_was_decided_and_has_no_buttons() -> None:
    card = finished_card(SESSION, permission(command="ls"), "approved by @ann 15:12")
    assert shown(card).splitlines()[1:] == ["command:", "  | ls", "approved by @ann 15:12"]
    assert not card.buttons


@pytest.mark.parametrize(("limit", "expected"), [(0, ""), (1, "a"), (2, "a"), (3, "a😀"), (9, "a😀b")])
def test_text_is_cut_between_characters(limit: int, expected: str) -> None:
    assert cut_utf16("a😀b", limit) == expected
