"""Shows the changes of a session: its files on top, their lines below."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical

from sm.board.tabs import CHANGES_KEYS, Jump
from sm.cli.display.patch_colours import piece_style
from sm.cli.display.patch_lines import Piece, PieceRole, Pieces
from sm.cli.display.patch_syntax import Syntax
from sm.cli.tui.appearance import shown_theme
from sm.cli.tui.cells import Cells
from sm.cli.tui.changes_tab import ShownChanges, words_alone
from sm.cli.tui.rows_view import RowsView
from sm.core.quotation import wrapped

_FILES_SHARE = 4
"""The files have at most this part of the height."""
_CURRENT = Style(reverse=True)


class ChangesView(Vertical):
    DEFAULT_CSS = """
    ChangesView { height: 1fr; }
    ChangesView RowsView { overflow-x: hidden; scrollbar-size-vertical: 1; }
    ChangesView #changed-files { margin-bottom: 1; }
    ChangesView #changed-lines { height: 1fr; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._changes = ShownChanges()
        self._rows: Sequence[Pieces] = ()
        """The lines of the changes, long ones over several rows."""
        self._starts: Sequence[int] = ()
        """The first row of each line of the changes."""
        self._folded_for: tuple[ShownChanges, int] | None = None

    def compose(self) -> ComposeResult:
        yield RowsView(self._file_cells, id="changed-files")
        yield RowsView(self._line_cells, id="changed-lines")

    def on_mount(self) -> None:
        self.watch(self.lines, "scroll_y", self._redraw, init=False)

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw, self._top_line)

    @property
    def lines(self) -> RowsView:
        """The region that scrolls."""
        return self.query_one("#changed-lines", RowsView)

    @property
    def _files(self) -> RowsView:
        return self.query_one("#changed-files", RowsView)

    @property
    def summary(self) -> str:
        """The numbers of files and lines."""
        return self._changes.summary

    def show(self, changes: ShownChanges | None) -> None:
        """Show changes, or that they are not read yet."""
        found = words_alone("loading") if changes is None else changes
        if found != self._changes:
            place = self._top_line
            self._changes = found
            self._draw(place)

    def begin(self) -> None:
        """Forget what was shown: another reading begins."""
        self._changes = ShownChanges()
        self._fold(self.lines.line_width)
        self.lines.scroll_to(y=0, animate=False, force=True, immediate=True)

    def press(self, character: str | None) -> bool:
        """Go to another file or hunk. Returns False if the key has another meaning."""
        jump = CHANGES_KEYS.get(character or "")
        if jump is None:
            return False
        self._fold(self.lines.line_width)
        found = self._changes
        is_file = jump in (Jump.PREVIOUS_FILE, Jump.NEXT_FILE)
        places = [self._starts[row] for row in (found.file_rows if is_file else found.hunk_rows)]
        top = round(self.lines.scroll_offset.y)
        if jump in (Jump.NEXT_FILE, Jump.NEXT_HUNK):
            at = bisect_right(places, top)
        else:
            at = bisect_left(places, top) - 1
        if 0 <= at < len(places):
            self._scroll(places[at])
        return True

    def on_rows_view_clicked(self, event: RowsView.Clicked) -> None:
        event.stop()
        if event.view is self._files:
            self._scroll(self._starts[self._changes.file_rows[event.place]])

    def on_rows_view_pointed(self, event: RowsView.Pointed) -> None:
        event.stop()

    def on_click(self, event: events.Click) -> None:
        event.stop()

    def _scroll(self, row: int) -> None:
        self.lines.scroll_to(y=row, animate=False, force=True, immediate=True)
        self._redraw()

    # Drawing

    @property
    def _current(self) -> int:
        """The file at the top of the region with the lines."""
        line = bisect_right(self._starts, round(self.lines.scroll_offset.y)) - 1
        return max(0, bisect_right(self._changes.file_rows, line) - 1)

    @property
    def _top_line(self) -> tuple[str, int] | None:
        """The name of the file at the top, and the number of its line there. None at the begin."""
        line = bisect_right(self._starts, round(self.lines.scroll_offset.y)) - 1
        if line <= 0 or not self._changes.files:
            return None
        return _name(self._changes.files[self._current]), line - self._changes.file_rows[self._current]

    def _row_of(self, place: tuple[str, int] | None) -> int:
        """The row of a line of a file, or as near as there is one."""
        names = list(map(_name, self._changes.files))
        if place is None or place[0] not in names:
            return 0
        number = names.index(place[0])
        rows = self._changes.file_rows
        end = rows[number + 1] if number + 1 < len(rows) else len(self._starts)
        return self._starts[min(rows[number] + place[1], end - 1)]

    def _redraw(self) -> None:
        self._draw(None)

    def _draw(self, place: tuple[str, int] | None) -> None:
        """Draw both regions. `place`: the line to keep at the top, or None for the present one."""
        if not self.is_mounted or not self.display:
            return
        lines, files, count = self.lines, self._files, len(self._changes.files)
        files.styles.height = max(1, min(count, self.size.height // _FILES_SHARE))
        files.display = count > 0
        place = place or self._top_line
        is_folded_anew = self._fold(lines.line_width)  # a scrollbar that appears makes the lines narrower
        for view in (lines, files):
            view.repaint(filled=not self.app.ansi_color)
        # So that the last file can come to the top, too.
        padded = len(self._rows) + (max(0, lines.size.height - 1) if count else 0)
        top = self._row_of(place) if is_folded_anew else min(round(lines.scroll_offset.y), padded - 1)
        lines.show(padded, top)
        if is_folded_anew:
            lines.scroll_to(y=top, animate=False, force=True, immediate=True)
        files.show(count, self._current)

    def _fold(self, width: int) -> bool:
        """Fold the lines for a width. Returns False if they are folded for it already."""
        if self._folded_for is not None and self._folded_for == (self._changes, width):
            return False
        rows, starts = list[Pieces](), list[int]()
        for pieces in self._changes.rows:
            starts.append(len(rows))
            rows += _folded(pieces, max(20, width))
        self._rows, self._starts, self._folded_for = rows, starts, (self._changes, width)
        return True

    def _line_cells(self, place: int, width: int) -> Cells:
        return self._cells(self._rows[place]) if place < len(self._rows) else ()

    def _file_cells(self, place: int, width: int) -> Cells:
        cells = self._cells(self._changes.files[place])
        if place != self._current:
            return cells
        return tuple((text, style + _CURRENT) for text, style in cells)

    def _cells(self, pieces: Pieces) -> Cells:
        theme = shown_theme(self.app)
        return tuple((text, piece_style(role, syntax, theme)) for text, role, syntax in pieces)


def _name(file: Pieces) -> str:
    return file[0][0]


def _folded(pieces: Pieces, width: int) -> Iterator[Pieces]:
    """A line in rows of this width. Below the numbers of its first row, the others have blanks."""
    if sum(cell_len(text) for text, _, _ in pieces) <= width:
        yield pieces
        return
    if pieces[0][1] is PieceRole.RULE:
        yield [(pieces[0][0][:width], PieceRole.RULE, Syntax.NONE)]
        return
    start: list[Piece] = []
    if pieces[0][1] is PieceRole.NUMBER and len(pieces) > 1:
        start = [(" " * len(pieces[0][0]), PieceRole.NUMBER, Syntax.NONE), ("│ ", pieces[1][1], Syntax.NONE)]
    begin = sum(len(text) for text, _, _ in start)
    if begin > width // 2:
        start, begin = [], 0
    row, used = list[Piece](), 0
    for text, role, syntax in pieces:
        while text:
            if used >= width:
                yield row
                row, used = list(start), begin
            piece = next(wrapped(text, width - used)) if cell_len(text) > width - used else text
            if not piece:  # a wide character, for which one cell is left
                used = width
                continue
            row.append((piece, role, syntax))
            used += cell_len(piece)
            text = text[len(piece) :]
    yield row
