"""The lines of the two lists of `sm top` as cells, computed again only when they differ."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from rich.cells import cell_len

from sm.board import Board, BoardNeed, BoardRow, Line
from sm.board.columns import Column, filled_columns
from sm.board.details import earlier_command, earlier_words
from sm.cli.tui.cells import (
    Cells,
    NeedWidths,
    Widths,
    name_text,
    need_cells,
    need_widths,
    quiet_cells,
    session_cells,
    session_header,
    widths_of,
)
from sm.core.dataclass import dataclass

_CACHED_MAX = 2_000


@dataclass(frozen=True, slots=True)
class ListCursor:
    """The state of the view that the lines depend on, besides their sessions and entries."""

    in_needs: bool = False
    """The selection is among the entries that need the person."""
    need: int = 0
    """The place of the selected entry."""
    session_id: str | None = None
    """The session of the selection."""
    fresh: bool = True
    """The daemon is there, and the view shows all its news."""
    archived: bool = False
    """Archived sessions are shown."""


class ListLines:
    """Call `prepare` before each drawing. `needs`: the entries that need the person."""

    def __init__(self, board: Board, needs: Callable[[], Sequence[BoardNeed]]) -> None:
        self._board = board
        self._needs = needs
        self._cursor = ListCursor()
        self._cells: dict[str, tuple[Line, tuple[object, ...], Cells]] = {}
        """The cells of each session that was drawn, with all that they depend on."""
        self._names: dict[str, tuple[BoardRow, int]] = {}
        """The width of each name without its place in the tree."""
        self._lines: Sequence[Line] = ()
        self._rows: Mapping[str, BoardRow] = {}
        self._workspace: str | None = None
        self._filled = frozenset[Column]()
        self._has_sums = False
        self._needs_before: Sequence[BoardNeed] = ()
        self._need_widths = need_widths(0, ())
        self._longest = 0
        self._widths = widths_of(0)

    def prepare(self, cursor: ListCursor, width: int) -> Widths:
        """Take what the next drawing depends on, and return the widths of the columns. `width`: of a line."""
        self._cursor = cursor
        board = self._board
        if board.rows is not self._rows or board.workspace != self._workspace:
            self._rows, self._workspace = board.rows, board.workspace
            self._filled = filled_columns(self._chosen_rows())
            self._has_sums = any(row.tree_cost() for row in self._chosen_rows())
        if board.lines is not self._lines:
            self._lines, self._longest = board.lines, self._longest_name()
        return self._divide(width)

    def _divide(self, width: int) -> Widths:
        self._widths = widths_of(width, self._filled, self._longest, has_sums=self._has_sums)
        return self._widths

    def _chosen_rows(self) -> Iterable[BoardRow]:
        """The rows of the workspace, also those that a filter hides: the columns stay while a person types one."""
        chosen = self._board.workspace
        return (row for row in self._board.rows.values() if chosen is None or row.workspace == chosen)

    def header(self) -> str:
        return session_header(self._widths)

    def _longest_name(self) -> int:
        longest, names = 0, self._names
        if len(names) > _CACHED_MAX + len(self._board.rows):
            names.clear()
        for line in self._board.lines:
            row = line.row
            known = names.get(row.id)
            if known is None or known[0] is not row:
                known = names[row.id] = (row, cell_len(name_text(Line(row))))
            longest = max(longest, known[1] + len(line.branch) + (3 if line.folded else 0))
        return longest

    def session(self, place: int, width: int) -> Cells:
        """A line of the list of sessions; the last one has the sessions that ended earlier."""
        board, cursor = self._board, self._cursor
        if width != self._widths.line:  # the first layout has its drawing before another call of `prepare`
            self._divide(width)
        if place >= len(board.lines):
            command = earlier_command(board, archived=cursor.archived)
            return quiet_cells(f"  {earlier_words(board)}: {command}", width)
        line = board.lines[place]
        now_s = board.now_s(time.monotonic())
        selected = cursor.session_id if cursor.in_needs else board.selected
        state = "" if line.row.id != selected else "marked" if cursor.in_needs else "cursor"
        key = (line.row.status_text(now_s), state, cursor.fresh, self._widths)
        known = self._cells.get(line.row.id)
        if known is None or known[0] != line or known[1] != key:
            if len(self._cells) > _CACHED_MAX:
                self._cells.clear()
            cells = session_cells(line, self._widths, now_s, state=state, fresh=cursor.fresh)
            known = self._cells[line.row.id] = (line, key, cells)
        return known[2]

    def need_widths(self, width: int) -> NeedWidths:
        """The columns of what needs the person, in a line of that width."""
        needs = self._needs()
        if needs is not self._needs_before or width != self._need_widths.line:
            self._needs_before, self._need_widths = needs, need_widths(width, needs)
        return self._need_widths

    def need(self, place: int, width: int) -> Cells:
        """A line of what needs the person."""
        cursor = self._cursor
        state = "cursor" if cursor.in_needs and place == cursor.need else ""
        now_s = self._board.now_s(time.monotonic())
        return need_cells(
            self._needs()[place], self.need_widths(width), now_s, state=state, fresh=cursor.fresh
        )
