"""The lines of the queue: their sentence, their actions, and the requests that ask for the same."""

from typing import Any

import pytest

from sm.board import Target, needs
from sm.board.edit_counts import edit_counts
from sm.board.equal_requests import equal_requests
from sm.board.need_actions import need_actions
from sm.board.words import request_words, says_all
from tests.board.samples import AT_S, message, row
from tests.cli.samples import request

NOTHING: dict[str, Any] = {"trouble": [], "dead_letters": 0}
FAILED = {"status": "error", "attention": "failed", "exit_code": 3, "pid": None}


def permission(number: int = 57, tool: str = "Bash", session: str = "a", **arguments: Any) -> dict[str, Any]:
    more = {"tool": tool, "arguments": arguments, "session_id": session}
    return request(number, kind="permission", questions=[], options=[]) | more


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"file_path": "a.py", "old_string": "a\nb\nc", "new_string": "a\nx\ny\nc"}, "+2 -1"),
        ({"file_path": "a.py", "old_string": "", "new_string": "a\nb"}, "+2 -0"),
        ({"file_path": "a.py", "old_string": "a\na", "new_string": "a"}, "+0 -1"),
        (
            {"file_path": "a.py", "old_string": "a", "new_string": "b", "replace_all": True},
            "+1 -1 at each place",
        ),
        ({"file_path": "a.py", "edits": [{"old_string": "a", "new_string": "b"}] * 2}, "+2 -2"),
        ({"file_path": "a.py", "content": "a\nb\n"}, "2 lines"),
    ],
)
def test_edit_counts_are_of_the_lines_that_differ(arguments: dict[str, Any], words: str) -> None:
    counts = edit_counts(arguments)
    assert counts is not None
    assert (counts.path, counts.words) == ("a.py", words)
    assert request_words(permission(tool="Edit", **arguments)) == f"Edit: a.py {words}"


@pytest.mark.parametrize(
    "arguments",
    [
        None,
        {"command": "ls"},
        {"file_path": " ", "content": "x"},
        {"file_path": 1, "content": "x"},
        {"file_path": "a", "edits": []},
        {"file_path": "a", "edits": ["x"]},
        {"file_path": "a", "old_string": "a", "new_string": 1},
        {"file_path": "a"},
    ],
)
def test_edit_counts_are_none_for_another_tool_use(arguments: dict[str, Any] | None) -> None:
    assert edit_counts(arguments) is None


def test_sentence_of_a_command_is_the_command_wherever_its_description_stands() -> None:
    found = permission(description="List the files", command="rm -rf /")
    assert request_words(found) == "Bash: rm -rf /"
    assert (
        request_words(permission(tool="Task", description="look around", prompt="x")) == "Task: look around"
    )


@pytest.mark.parametrize(
    ("found", "is_all"),
    [
        (permission(command="ls", description="List"), True),
        (permission(command="ls", timeout=5), False),
        (permission(command="ls\nrm -rf /"), False),
        (permission(command="x" * 600), False),
        (permission(tool="mcp__shop__pay", amount=5), False),
        (permission(tool="mcp__shop__run", command="ls", description="delete the shop"), False),
        (permission(tool="Edit", file_path="a", old_string="a", new_string="b"), False),
        (permission(tool="Write", file_path="a", content="b"), False),
        (permission(command="ls") | {"cut": True}, False),
        (permission(command="ls") | {"reason": "the agent ignored the answer"}, False),
        (request(kind="completion", questions=[{"question": "built it", "options": []}]), True),
        (request(kind="completion", questions=[{"question": "a\nb", "options": []}]), False),
        (request(kind="budget", questions=[], arguments={}), False),
    ],
)
def test_sentence_says_all_only_if_nothing_else_is_decided(found: dict[str, Any], is_all: bool) -> None:
    assert says_all(found) is is_all


def test_equal_requests_are_grouped_with_the_sentence_that_says_what_is_equal() -> None:
    rows = {
        r.id: r
        for r in (
            row("a", workspace="shop"),
            row("b", workspace="shop"),
            row("c"),
            row("d"),
            row("e", working_dir="/e"),
        )
    }
    asked = [
        permission(1, command="npm install", description="for a"),
        permission(2, session="b", description="for b", command="npm install"),
        permission(3, session="c", command="npm install"),
        permission(4, command="npm test"),
        permission(5, tool="Edit", session="c", file_path="x", old_string="a", new_string="b"),
        permission(6, tool="Edit", session="d", file_path="x", old_string="a", new_string="b"),
        permission(9, tool="Edit", session="e", file_path="x", old_string="a", new_string="b"),
        request(7, session_id="a"),
        request(8, session_id="a"),
    ]
    found = needs(rows, asked, [], NOTHING, AT_S)
    groups = equal_requests(found, rows)
    assert {key: " ".join(group.keys) for key, group in groups.items()} == {
        "r1": "r1 r2",
        "r2": "r1 r2",
        "r3": "r3",
        "r4": "r4",
        "r5": "r5 r6",
        "r6": "r5 r6",
        "r9": "r9",
    }
    assert groups["r1"].words == "the same command in the same workspace: 2 of 9"
    assert groups["r5"].words == "the same tool use in the same directory: 2 of 9"


def test_requests_of_sessions_that_the_view_does_not_know_are_equal_to_none() -> None:
    asked = [permission(number, session="gone", command="npm install") for number in (1, 2)]
    found = needs({}, asked, [], NOTHING, AT_S)
    assert len(found) == 2
    assert equal_requests(found, {}) == {}


def test_entries_have_the_actions_that_fit_their_kind_and_are_possible() -> None:
    over, live = row("a", **FAILED), row("b")
    done = row("c", status="completed", attention="done")
    waiting = {"session_id": None, "label": "operator", "from": "b", "from_label": "engineer-b"}
    asked = [permission(1, session="b", command="ls"), request(2, session_id="b")]
    asked += [request(3, session_id="b", kind="dialog", options=[])]
    found = needs(
        {r.id: r for r in (over, live, done)}, asked, [message(1, "queued", **waiting)], NOTHING, AT_S
    )
    rows = {"a": over, "b": live, "c": done}
    offered = {need.key: need_actions(Target(rows.get(need.session_id or ""), need)) for need in found}
    assert {key: list(actions.buttons) for key, actions in offered.items()} == {
        "r1": ["approve", "deny"],
        "r2": ["answer", "deny"],
        "r3": ["attach"],
        "failed a": ["restore"],
        "message 1": ["read"],
        "done c": ["seen"],
    }
    assert [name for name in offered["r1"].menu if name != "always"] == ["attach", "interrupt"]
    assert list(offered["failed a"].menu) == ["seen", "archive"]
    assert need_actions(Target(live)).buttons == ()


def test_actions_that_the_view_does_not_allow_are_left_out() -> None:
    over = row("a", **FAILED)
    (need,) = needs({"a": over}, [], [], NOTHING, AT_S)
    offered = need_actions(
        Target(over, need), lambda action, target: "no" if action.name == "restore" else None
    )
    assert (offered.buttons, offered.menu) == ([], ["seen", "archive"])
