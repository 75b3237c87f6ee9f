"""Equal requests: the same use of the same tool in the same workspace."""

from typing import Any

import pytest

from sm.core.likeness import equal_requests, likeness


def _request(number: int = 1, **changes: Any) -> dict[str, Any]:
    return {
        "request_id": f"r{number}",
        "session_id": f"{number:08x}",
        "kind": "permission",
        "tool": "Bash",
        "arguments": {"command": "npm test", "description": "Run the tests", "timeout": 1000},
        "agent": None,
        "cut": False,
        "questions": [],
        "state": "open",
        "answer": None,
    } | changes


def test_requests_for_the_same_command_in_the_same_workspace_are_equal() -> None:
    first, second = _request(1), _request(2, agent="reviewer")
    assert likeness(first, "shop") is not None
    assert likeness(first, "shop") == likeness(second, "shop")


def test_requests_of_different_workspaces_are_not_equal() -> None:
    keys = {likeness(_request(), place) for place in ("shop", "api", None)}
    assert len(keys) == 3 and None not in keys


def test_description_of_a_command_and_order_of_arguments_do_not_matter() -> None:
    other = {"timeout": 1000, "description": "Check that all is well", "command": "npm test"}
    assert likeness(_request(), None) == likeness(_request(arguments=other), None)


@pytest.mark.parametrize(
    "changes",
    [
        {"tool": "mcp__shop__run"},
        {"arguments": {"command": "npm test ", "timeout": 1000}},
        {"arguments": {"command": "npm test"}},
        {"arguments": {"command": "npm test", "timeout": 1000.0}},
        {"arguments": {"command": "npm test", "timeout": 1000, "dangerouslyDisableSandbox": True}},
        {"arguments": {"command": ["npm test"], "timeout": 1000}},
    ],
)
def test_requests_with_other_tools_or_arguments_are_not_equal(changes: dict[str, Any]) -> None:
    assert likeness(_request(**changes), None) not in (None, likeness(_request(), None))


def test_true_and_one_are_different_arguments() -> None:
    keys = {likeness(_request(arguments={"force": value}), None) for value in (True, 1, "1", "true", None)}
    assert len(keys) == 5


@pytest.mark.parametrize(
    "changes",
    [
        *(
            {"kind": kind}
            for kind in ("setup", "question", "completion", "budget", "exchange", "dialog", "new")
        ),
        {"cut": True},
        {"tool": None},
        {"tool": "AskUserQuestion"},
        {"tool": "ExitPlanMode", "arguments": {"plan": "1. write"}},
        {"arguments": None},
        {"questions": [{"question": "which?", "options": [], "multiple": False}]},
        {"state": "answered"},
        {"answer": {"approved": True, "answers": [], "message": None}},
    ],
)
def test_request_that_must_be_answered_alone_has_no_key(changes: dict[str, Any]) -> None:
    assert likeness(_request(**changes), "shop") is None


def test_arguments_that_are_nested_too_deeply_have_no_key() -> None:
    nested: Any = "x"
    for _ in range(60):
        nested = [nested]
    assert likeness(_request(arguments={"value": nested}), None) is None


def test_equal_requests_keep_their_order_and_their_workspaces() -> None:
    requests = [
        _request(1),
        _request(2),
        _request(3, arguments={"command": "rm x"}),
        _request(4),
        _request(5),
    ]
    places = {"r1": "shop", "r2": "shop", "r3": "shop", "r4": "api", "r5": "shop"}
    found = equal_requests(requests[1], requests, lambda r: places[r["request_id"]])
    assert [r["request_id"] for r in found] == ["r1", "r2", "r5"]


def test_request_that_must_be_answered_alone_is_not_even_equal_to_itself() -> None:
    cut = _request(cut=True)
    assert equal_requests(cut, [cut, cut], lambda _: None) == []
