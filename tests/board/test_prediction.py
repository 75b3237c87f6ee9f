"""The state of a message, as it is predicted before the message is sent."""

from typing import Any

import pytest

from sm.board import Target, needs
from sm.board.prediction import predicted, prediction
from tests.board.samples import AT_S, row
from tests.cli.samples import request

QUESTION, PERMISSION = ("question", "r57"), ("permission", "r58")


@pytest.mark.parametrize(
    ("facts", "mode", "dialogs", "expected"),
    [
        ({"status": "idle"}, "auto", [], "will be delivered now"),
        ({"status": "running"}, "auto", [], "will be delivered while the agent works"),
        ({"status": "running"}, "idle", [], "will be held until the agent is idle"),
        ({"status": "running"}, "urgent", [], "will interrupt the turn"),
        ({"status": "starting"}, "auto", [], "will be held: the session is starting"),
        ({"status": "killed"}, "auto", [], "will be refused: the session has ended"),
        ({"status": "idle", "messages_held": 1}, "auto", [], "will be held: 1 message before it"),
        ({"status": "idle", "messages_held": 2}, "urgent", [], "will be delivered now"),
        ({"status": "waiting_input"}, "auto", [QUESTION], "answers r57, its only open question"),
        (
            {"status": "waiting_input"},
            "auto",
            [PERMISSION],
            "will be held until r58 is answered (permission dialog)",
        ),
        (
            {"status": "waiting_input"},
            "auto",
            [QUESTION, PERMISSION],
            "will be held until r57 is answered (question dialog)",
        ),
        (
            {"status": "waiting_input", "status_reason": "a dialog of the CLI"},
            *("auto", [], "will be held: a dialog of the CLI"),
        ),
        ({"paused": {"by": "operator"}}, "urgent", [], "will be held: the session is paused"),
        ({"paused": {"by": "operator"}}, "auto", [QUESTION], "answers r57, its only open question"),
        ({"provider": "command"}, "auto", [], "will be queued until the program reads its inbox"),
    ],
)
def test_prediction_names_the_reason_to_hold_a_message(
    facts: dict[str, Any], mode: str, dialogs: list[tuple[str, str]], expected: str
) -> None:
    assert prediction(row(**facts), mode, dialogs) == expected


def test_prediction_looks_only_at_requests_of_the_recipient() -> None:
    requests = [
        request(request_id=name, session_id=session_id, kind="question")
        for name, session_id in (("r1", "5e6f7a8b"), ("r2", "1a2b3c4d"))
    ]
    found = needs({}, requests, [], {}, AT_S)
    assert predicted(Target(row(status="waiting_input")), found) == "answers r2, its only open question"
    assert predicted(Target(), found) == ""
