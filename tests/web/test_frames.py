"""The fields that the head of a session's page shows."""

from sm.board import board_row, needs
from sm.web.frames import detail_fields, row_fields
from tests.board.samples import AT_S, row_data
from tests.cli.samples import request


def test_row_has_the_branch_of_its_worktree() -> None:
    worktree = {"path": "/w/login", "branch": "fix-login"}
    row = board_row(row_data("1a2b3c4d", label="engineer-login", worktree=worktree))
    assert row_fields(row)["branch"] == "fix-login"
    for data in (None, {"path": "/w/login", "branch": None}):
        assert row_fields(board_row(row_data("1a2b3c4d", worktree=data)))["branch"] == ""


def test_detail_has_the_request_and_the_actions_that_fit() -> None:
    row = board_row(row_data("1a2b3c4d", status="waiting_input", open_requests=["r7"]))
    found = needs({}, [request(request_id="r7", session_id="1a2b3c4d")], [], {}, AT_S)
    detail = detail_fields(row, found, AT_S)
    assert (detail["request"], *detail["main"][:2]) == ("r7", "interrupt", "attach")
    assert set(detail["main"]) <= set(detail["actions"])
