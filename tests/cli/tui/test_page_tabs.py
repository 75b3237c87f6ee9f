"""The tabs of a session's page in `sm top`."""

from typing import cast

from rich.text import Text

from sm.board import Target, needs
from sm.board.lanes import Lane, LaneMark, LaneSpan
from sm.cli.tui.page_tabs import PageTabs
from sm.cli.tui.timeline_tabs import TimelineAnswer
from sm.client.http import Client
from sm.feed import FeedSource
from tests.board.samples import AT_S, board_of, row_data, update
from tests.cli.samples import request


def test_children_of_a_session_include_those_that_are_older_than_their_parent() -> None:
    board = board_of(
        row_data("deep", parent_session_id="child"),
        row_data("child", parent_session_id="lead"),
        row_data("lead"),
    )
    tabs = PageTabs(board, cast(Client, None), cast(FeedSource, None)).of_session(Target(board.rows["lead"]))
    (lines,) = (tab.lines(None, 100) for tab in tabs if tab.title == "Children")
    shown = [str(line).split()[1:3] for line in lines]
    assert shown == [["engineer-child", "running"], ["└─", "engineer-deep"]]


def test_change_that_a_request_proposes_has_its_colours_on_the_page_of_its_session() -> None:
    edit = {"file_path": "a.py", "old_string": "one", "new_string": "two"}
    asked = request(kind="permission", tool="Edit", arguments=edit)
    board = board_of(row_data(str(asked["session_id"]), open_requests=[asked["request_id"]]))
    found = needs(board.rows, [asked], [], {}, AT_S)
    pages = PageTabs(board, cast(Client, None), cast(FeedSource, None), lambda: found)
    target = Target(board.rows[str(asked["session_id"])])
    (lines,) = (tab.lines(None, 80) for tab in pages.of_session(target) if tab.title == "Overview")
    styles = {line.plain.strip(): line.style for line in lines if isinstance(line, Text)}
    assert (styles["|- one"], styles["|+ two"], styles["| a.py"]) == ("red", "green", "")


def test_timeline_has_the_reason_of_a_failure_whose_row_comes_later() -> None:
    board = board_of()
    tab = PageTabs(board, cast(Client, None), cast(FeedSource, None)).of_timeline()[0]
    spans, marks = [LaneSpan("error", AT_S, AT_S + 60, "")], [LaneMark(AT_S, "error", "it crashed")]
    answer = TimelineAnswer([Lane("a", "agent", "", "", spans, marks)], AT_S, AT_S + 60, ())
    assert any("agent  it crashed" in str(line) for line in tab.lines(answer, 100))
    broken = row_data("a", status="error", attention="failed", status_reason="exit code 3")
    board.apply(update([broken], snapshot=True), 0.0)
    assert any("agent  exit code 3" in str(line) for line in tab.lines(answer, 100))
