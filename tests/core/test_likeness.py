"""Equal requests: the same use of the same tool in the same place."""

from typing import Any

import pytest

from sm.core.likeness import equal_requests, likeness, place_of


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
    keys = {likeness(_request(), place) for place in ("workspace shop", "workspace api", "directory /w")}
    assert len(keys) == 3 and None not in keys


def test_description_of_a_command_and_order_of_arguments_do_not_matter() -> None:
    other = {"timeout": 1000, "description": "Check that all is well", "command": "npm test"}
    assert likeness(_request(), "directory /w") == likeness(_request(arguments=other), "directory /w")


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
    assert likeness(_request(**changes), "") not in (None, likeness(_request(), ""))


def test_true_and_one_are_different_arguments() -> None:
    keys = {likeness(_request(arguments={"force": value}), "") for value in (True, 1, "1", "true", None)}
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
    assert likeness(_request(arguments={"value": nested}), "directory /w") is None


def _session(directory: str = "/app", **changes: Any) -> dict[str, Any]:
    return {"workspace": None, "working_dir": directory, "worktree": None, "copy_of": None} | changes


def _tree(
    directory: str, inside: str = "", *, branch: str | None = "sm/x", copy_of: str | None = None
) -> dict[str, Any]:
    return _session(directory + inside, worktree={"path": directory, "branch": branch}, copy_of=copy_of)


@pytest.mark.parametrize(
    ("first", "second", "are_same"),
    [
        (_session(workspace="shop"), _session("/other", workspace="shop"), True),
        (_session(workspace="shop"), _session(workspace="api"), False),
        (_session(workspace="shop"), _session(), False),
        (_session(), _session(), True),
        (_session(), _session("/app/web"), False),
        (_tree("/app/.sm/worktrees/one"), _tree("/app/.sm/worktrees/two"), True),
        (_tree("/app/.sm/worktrees/one"), _tree("/other/.sm/worktrees/one"), False),
        (_tree("/trees/one"), _tree("/trees/two"), False),
        (_tree("/app/.sm/worktrees/one", "/web"), _tree("/app/.sm/worktrees/two", "/api"), False),
        (_tree("/app/.sm/worktrees/one"), _session("/app/.sm/worktrees"), False),
        (_tree("/s/copies/1", branch=None), _tree("/s/copies/2", branch=None), False),
        (_tree("/s/copies/1", copy_of="/notes"), _tree("/s/copies/2", copy_of="/notes"), True),
        (_tree("/s/copies/1", copy_of="/notes"), _tree("/s/copies/2", copy_of="/texts"), False),
        (_tree("/s/copies/1", copy_of="/notes"), _session("/notes"), False),
    ],
)
def test_place_is_the_workspace_or_else_the_directory(
    first: dict[str, Any], second: dict[str, Any], are_same: bool
) -> None:
    assert (place_of(first) == place_of(second)) is are_same


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
    assert equal_requests(cut, [cut, cut], lambda _: "directory /w") == []
