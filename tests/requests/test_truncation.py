"""What is kept of a dialog: it comes from an agent, and lies in memory and in the database."""

from typing import Any

import orjson
import pytest

from sm.core.requests import Question
from sm.core.states import RequestKind
from sm.providers.readers import Dialog
from sm.requests.truncation import asked_of


def permission(arguments: dict[str, Any], **more: Any) -> Dialog:
    return Dialog(RequestKind.PERMISSION, "Bash", arguments, **more)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"command": "a\x00b\x1b[201~\u202e"},
        {"content": "x" * 65_000},
        {"n": 2**63, "deep": [[[{"": None}]]]},
    ],
)
def test_arguments_that_fit_are_kept_exactly(arguments: dict[str, Any]) -> None:
    asked = asked_of(permission(arguments), "key", "toolu_1")
    assert asked.arguments is arguments
    assert (asked.cut, asked.hook, asked.tool_use) == (False, "key", "toolu_1")


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ({"content": "x" * 70_000, "path": "/w/a"}, {"content": "x" * 2000, "path": "/w/a"}),
        ({"content": ["x" * 3000] * 100}, {"content": ["x" * 200] * 100}),
        ({"x" * 70_000: 1}, {"x" * 2000: 1}),
        ({"content": [1] * 70_000}, {}),
        ({"command": "half \ud800"}, {"command": "half \N{REPLACEMENT CHARACTER}"}),
    ],
)
def test_what_is_too_long_is_cut_and_says_so(arguments: dict[str, Any], kept: dict[str, Any]) -> None:
    asked = asked_of(permission(arguments), "key", None)
    assert asked.arguments == kept
    assert asked.cut


def test_what_the_hook_has_cut_stays_cut() -> None:
    assert asked_of(permission({"command": "x"}, cut=True), "key", None).cut


@pytest.mark.parametrize(
    "question",
    [
        Question("Which?" + "x" * 10_000),
        Question("Which?", ("a",) * 51),
        Question("Which?", ("a" * 1_001,)),
        Question("Which\x00?"),
    ],
)
def test_a_question_that_is_not_kept_as_it_came_says_so(question: Question) -> None:
    asked = asked_of(Dialog(RequestKind.QUESTION, "AskUserQuestion", {}, (question,)), "key", None)
    assert asked.cut


def test_questions_are_bounded_and_can_be_stored() -> None:
    question = Question("Which\x00?" + "x" * 20_000, ("a\ud800\n",) * 80, multiple=True)
    asked = asked_of(Dialog(RequestKind.QUESTION, "AskUserQuestion", {}, (question,) * 30), "key", None)
    assert asked.cut
    assert len(asked.questions) == 10
    for each in asked.questions:
        assert each.question.startswith("Which\N{REPLACEMENT CHARACTER}?x")
        assert len(each.question) == 10_000
        assert each.options == ("a\N{REPLACEMENT CHARACTER}\n",) * 50
        assert each.multiple
    orjson.dumps([each.options for each in asked.questions])
