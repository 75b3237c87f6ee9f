"""Size limits of dialogs from agents before they are stored."""

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
def test_arguments_within_the_limit_are_kept_unchanged(arguments: dict[str, Any]) -> None:
    request = asked_of(permission(arguments), "key", "toolu_1")
    assert request.arguments is arguments
    assert (request.cut, request.hook, request.tool_use) == (False, "key", "toolu_1")


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
def test_arguments_are_cut_and_marked_when_too_long(arguments: dict[str, Any], kept: dict[str, Any]) -> None:
    request = asked_of(permission(arguments), "key", None)
    assert request.arguments == kept
    assert request.cut


def test_request_stays_marked_as_cut_when_the_hook_cut_the_arguments() -> None:
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
def test_changed_question_is_marked_as_cut(question: Question) -> None:
    request = asked_of(Dialog(RequestKind.QUESTION, "AskUserQuestion", {}, (question,)), "key", None)
    assert request.cut


def test_questions_are_limited_and_serializable() -> None:
    question = Question("Which\x00?" + "x" * 20_000, ("a\ud800\n",) * 80, multiple=True)
    request = asked_of(Dialog(RequestKind.QUESTION, "AskUserQuestion", {}, (question,) * 30), "key", None)
    assert request.cut
    assert len(request.questions) == 10
    for stored in request.questions:
        assert stored.question.startswith("Which\N{REPLACEMENT CHARACTER}?x")
        assert len(stored.question) == 10_000
        assert stored.options == ("a\N{REPLACEMENT CHARACTER}\n",) * 50
        assert stored.multiple
    orjson.dumps([stored.options for stored in request.questions])
