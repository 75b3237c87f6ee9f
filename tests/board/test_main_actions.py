"""The two actions that fit the state of a session, and the others of its menu."""

from typing import Any

import pytest

from sm.board import ACTIONS, Target, needs
from sm.board.main_actions import SHOWN, MainActions, main_actions
from tests.board.samples import AT_S, row
from tests.cli.samples import request

ENDED = {"status": "completed", "pid": None}


def actions(*requests: Any, **facts: Any) -> MainActions:
    found = needs({}, list(requests), [], {}, AT_S)
    names = [entry["request_id"] for entry in requests]
    return main_actions(Target(row(open_requests=names, **facts)), found)


def asked(**more: Any) -> Any:
    return request(**{"request_id": "r7", "session_id": "1a2b3c4d", **more})


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"status": "running"}, ["interrupt", "attach"]),
        ({"status": "starting"}, ["interrupt", "attach"]),
        ({"status": "idle"}, ["attach", "kill"]),
        ({"status": "waiting_input"}, ["attach", "interrupt"]),
        ({"status": "running", "status_stale": True}, ["why", "attach"]),
        (ENDED, ["restore", "archive"]),
        ({**ENDED, "archived": True}, ["restore", "unarchive"]),
        ({**ENDED, "status": "error", "attention": "failed"}, ["restore", "why"]),
        ({"status": "completed", "attention": "done"}, ["attach", "kill"]),
    ],
)
def test_two_actions_fit_each_state(facts: dict[str, Any], expected: list[str]) -> None:
    found = actions(**facts)
    assert (found.request, list(found.names[:SHOWN])) == (None, expected)


def test_open_request_comes_before_the_actions() -> None:
    found = actions(asked(), status="waiting_input")
    assert (found.request, found.names[0]) == ("r7", "interrupt")


def test_dialog_that_only_its_terminal_answers_leads_there() -> None:
    found = actions(asked(kind="dialog"), status="waiting_input")
    assert (found.request, list(found.names[:SHOWN])) == (None, ["attach", "interrupt"])


def test_request_of_another_session_changes_nothing() -> None:
    found = actions(asked(session_id="5e6f7a8b"), status="running")
    assert found.request is None


@pytest.mark.parametrize("facts", [{"status": "running"}, ENDED, {**ENDED, "archived": True}])
def test_each_possible_action_on_the_session_is_there_once(facts: dict[str, Any]) -> None:
    target = Target(row(**facts))
    possible = {
        action.name for action in ACTIONS.values() if action.needs_session and action.refusal(target) is None
    }
    names = actions(**facts).names
    assert sorted(names) == sorted(possible - {"approve", "always", "deny", "answer", "read"})


def test_ends_of_a_session_come_last_in_its_menu() -> None:
    assert actions(status="running").names[-1] == "kill"
    assert actions(**ENDED).names[-1] == "rm"


def test_nothing_is_possible_without_a_session() -> None:
    assert main_actions(Target(), []) == MainActions(None, [])
