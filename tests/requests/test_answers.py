"""Answers to questions: options, numbers and free text."""

from dataclasses import replace

import pytest

from sm.core.requests import Question, Request
from sm.core.states import RequestKind, RequestState
from sm.errors import InvalidText, UsageError
from sm.requests.answers import resolve_options
from tests.samples import AT


def asks(*questions: Question) -> Request:
    return Request(57, "aaaa1111", RequestKind.QUESTION, RequestState.OPEN, AT, AT, questions=questions)


OPTIONS = ("Red", "Dark Blue", "S, small", "S", "large, very, very large")


@pytest.mark.parametrize(
    ("text", "chosen_text"),
    [
        ("1", "Red"),
        (" red ", "Red"),
        ("DARK BLUE", "Dark Blue"),
        ("s, small", "S, small"),
        ("green", "green"),
        ("red, s", "red, s"),
        ("  free  text ", "  free  text "),
    ],
)
def test_answer_selects_an_option_by_number_or_text(text: str, chosen_text: str) -> None:
    assert resolve_options(asks(Question("Which?", OPTIONS)), [text]) == (chosen_text,)


@pytest.mark.parametrize(
    ("text", "chosen_text"),
    [
        ("1", "Red"),
        ("1,3", "Red, S, small"),
        ("3, red", "S, small, Red"),
        ("red, dark blue", "Red, Dark Blue"),
        ("S, small", "S, small"),
        ("s", "S"),
        ("red, s, small", "Red, S, small"),
        ("red,s , dark blue", "Red, S, Dark Blue"),
        ("s, s, small", "S, S, small"),
        ("large, very, very large,1", "large, very, very large, Red"),
        ("1, red, 1", "Red"),
        ("1,,2,", "Red, Dark Blue"),
        (",", ","),
        ("red, green", "red, green"),
        ("red and blue", "red and blue"),
        ("1 2", "1 2"),
        ("large, very", "large, very"),
    ],
)
def test_answer_selects_several_options_when_question_allows_them(text: str, chosen_text: str) -> None:
    assert resolve_options(asks(Question("Which?", OPTIONS, multiple=True)), [text]) == (chosen_text,)


def test_answer_matches_case_when_options_differ_only_in_case() -> None:
    question = Question("Which?", ("make", "Make"))
    assert [resolve_options(asks(question), [text]) for text in ("make", "Make", "1", "2")] == [
        ("make",),
        ("Make",),
        ("make",),
        ("Make",),
    ]


def test_answers_are_assigned_to_questions_in_order() -> None:
    several = Question("Which?", OPTIONS, multiple=True)
    request = asks(several, Question("How many?"), Question("Really?", ("Yes", "No")))
    assert resolve_options(request, ["1,2", "1,2", "2"]) == ("Red, Dark Blue", "1,2", "No")


@pytest.mark.parametrize(("questions", "answers"), [(2, 1), (2, 3), (1, 2)])
def test_answer_is_refused_when_count_differs_from_questions(questions: int, answers: int) -> None:
    asked = (Question("Which?", OPTIONS, multiple=True),) * questions
    with pytest.raises(UsageError) as refused:
        resolve_options(asks(*asked), ["1"] * answers)
    assert f"request r57 has {questions} question" in refused.value.message
    assert refused.value.hint == f"sm answer r57{' TEXT' * questions}"


@pytest.mark.parametrize("text", ["", " \n", "\x1b[201~"])
def test_answer_is_refused_when_blank_or_unprintable(text: str) -> None:
    with pytest.raises((UsageError, InvalidText)):
        resolve_options(asks(Question("Which?", OPTIONS, multiple=True)), [text])


def test_answer_with_many_commas_is_read_fast() -> None:
    text = "," * 49_000 + "1"
    assert resolve_options(asks(Question("Which?", OPTIONS, multiple=True)), [text]) == ("Red",)


@pytest.mark.parametrize(
    "options",
    [(",".join("a" * 999), "b"), tuple("a," * n + "b" for n in range(1, 400))],
    ids=["an option with many commas", "many options"],
)
def test_answer_with_many_option_prefixes_is_free_text(options: tuple[str, ...]) -> None:
    """A quadratic search took minutes and blocked the daemon."""
    text = ",".join("a" * 25_000)
    assert resolve_options(asks(Question("Which?", options, multiple=True)), [text]) == (text,)


@pytest.mark.parametrize("text", ["1,2", "2 , 1"])
def test_answer_is_refused_when_two_numbers_are_given_for_a_single_choice(text: str) -> None:
    with pytest.raises(UsageError, match="request r57 accepts only one option"):
        resolve_options(asks(Question("Which colour?", ("red", "blue"))), [text])


@pytest.mark.parametrize("text", ["3", "0", "1,3", "7 , 1", "99"])
def test_answer_is_refused_when_number_has_no_option(text: str) -> None:
    with pytest.raises(UsageError, match="has no option"):
        resolve_options(asks(Question("Which colours?", ("red", "blue"), multiple=True)), [text])


@pytest.mark.parametrize(
    "question",
    [
        Question("How many?", ("10", "20")),
        Question("Which of the 3?", ("red", "blue")),
        Question("How many?"),
    ],
)
def test_answer_may_be_a_number_when_question_or_options_contain_numbers(question: Question) -> None:
    assert resolve_options(asks(question), ["30"]) == ("30",)


def test_digest_is_that_of_equal_words_only() -> None:
    request = asks(Question("Which?", OPTIONS))
    assert replace(request, state=RequestState.EXPIRED, reason="a day is over").digest == request.digest
    others = [
        asks(Question("Which one?", OPTIONS)),
        asks(Question("Which?", OPTIONS[:-1])),
        asks(Question("Which?", OPTIONS, multiple=True)),
        asks(Question("Which?", (*OPTIONS[:-1], "\ud800"))),
        replace(request, id=58),
        replace(request, kind=RequestKind.PERMISSION, tool="Bash", arguments={"command": "ls"}),
        replace(request, kind=RequestKind.PERMISSION, tool="Bash", arguments={"command": "ls "}),
        replace(request, agent="a1"),
        replace(request, cut=True),
    ]
    assert len({request.digest, *(other.digest for other in others)}) == 1 + len(others)
