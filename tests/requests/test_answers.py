"""What an answer to a question chooses."""

import pytest

from sm.core.requests import Question, Request
from sm.core.states import RequestKind, RequestState
from sm.errors import InvalidText, UsageError
from sm.requests.answers import chosen
from tests.samples import AT


def asks(*questions: Question) -> Request:
    return Request(57, "aaaa1111", RequestKind.QUESTION, RequestState.OPEN, AT, AT, questions=questions)


OPTIONS = ("Red", "Dark Blue", "S, small", "S", "large, very, very large")


@pytest.mark.parametrize(
    ("said", "means"),
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
def test_one_option_is_chosen_by_its_number_or_its_words(said: str, means: str) -> None:
    assert chosen(asks(Question("Which?", OPTIONS)), [said]) == (means,)


@pytest.mark.parametrize(
    ("said", "means"),
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
def test_several_options_are_chosen_where_that_is_asked(said: str, means: str) -> None:
    assert chosen(asks(Question("Which?", OPTIONS, multiple=True)), [said]) == (means,)


def test_of_options_that_differ_in_case_the_very_words_count() -> None:
    question = Question("Which?", ("make", "Make"))
    assert [chosen(asks(question), [said]) for said in ("make", "Make", "1", "2")] == [
        ("make",),
        ("Make",),
        ("make",),
        ("Make",),
    ]


def test_each_question_has_its_own_answer() -> None:
    several = Question("Which?", OPTIONS, multiple=True)
    asked = asks(several, Question("How many?"), Question("Really?", ("Yes", "No")))
    assert chosen(asked, ["1,2", "1,2", "2"]) == ("Red, Dark Blue", "1,2", "No")


@pytest.mark.parametrize(("asked", "answered"), [(2, 1), (2, 3), (1, 2)])
def test_as_many_answers_as_questions(asked: int, answered: int) -> None:
    questions = (Question("Which?", OPTIONS, multiple=True),) * asked
    with pytest.raises(UsageError) as refused:
        chosen(asks(*questions), ["1"] * answered)
    assert f"r57 asks {asked} question" in refused.value.message
    assert refused.value.hint == f"sm answer r57{' TEXT' * asked}"


@pytest.mark.parametrize("said", ["", " \n", "\x1b[201~"])
def test_what_is_no_text_is_no_answer(said: str) -> None:
    with pytest.raises((UsageError, InvalidText)):
        chosen(asks(Question("Which?", OPTIONS, multiple=True)), [said])


def test_a_long_answer_takes_no_time() -> None:
    said = "," * 49_000 + "1"
    assert chosen(asks(Question("Which?", OPTIONS, multiple=True)), [said]) == ("Red",)


@pytest.mark.parametrize(
    "options",
    [(",".join("a" * 999), "b"), tuple("a," * n + "b" for n in range(1, 400))],
    ids=["an option with many commas", "many options"],
)
def test_a_long_list_of_what_options_begin_with_is_words_of_its_own(options: tuple[str, ...]) -> None:
    """It took minutes once, and nobody else was answered (commas of an option squared, for each of the list)."""
    said = ",".join("a" * 25_000)
    assert chosen(asks(Question("Which?", options, multiple=True)), [said]) == (said,)


@pytest.mark.parametrize("said", ["1,2", "2 , 1"])
def test_of_two_numbers_only_one_may_be_chosen(said: str) -> None:
    with pytest.raises(UsageError, match="r57 takes one option"):
        chosen(asks(Question("Which colour?", ("red", "blue"))), [said])


@pytest.mark.parametrize("slip", ["3", "0", "1,3", "7 , 1", "99"])
def test_a_number_that_is_none_of_an_option_is_a_slip(slip: str) -> None:
    with pytest.raises(UsageError, match="has no option"):
        chosen(asks(Question("Which colours?", ("red", "blue"), multiple=True)), [slip])


@pytest.mark.parametrize(
    "question",
    [
        Question("How many?", ("10", "20")),
        Question("Which of the 3?", ("red", "blue")),
        Question("How many?"),
    ],
)
def test_a_number_is_an_answer_where_numbers_are_asked_for(question: Question) -> None:
    assert chosen(asks(question), ["30"]) == ("30",)
