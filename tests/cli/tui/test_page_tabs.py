"""The tabs of a session's page in `sm top`."""

from typing import cast

from sm.board import Target
from sm.cli.tui.page_tabs import PageTabs
from sm.client.http import Client
from sm.feed import FeedSource
from tests.board.samples import board_of, row_data


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
