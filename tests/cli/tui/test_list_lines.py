"""The lines of the list of `sm top`."""

import pytest

from sm.board import Board
from sm.cli.tui.list_lines import ListCursor, ListLines
from tests.board.samples import row_data, update


@pytest.mark.parametrize("width", [40, 80, 120])
def test_line_fills_the_width_of_its_drawing_when_the_first_layout_came_after_prepare(width: int) -> None:
    board = Board()
    board.apply(update([row_data("aaaaaaaa")], snapshot=True), 0.0)
    board.refresh(0.0, rests=True)
    lines = ListLines(board, lambda: ())
    lines.prepare(ListCursor(), 0)
    assert sum(len(text) for text, _ in lines.session(0, width)) == width
    lines.prepare(ListCursor(), width)
    assert len(lines.header()) == width
