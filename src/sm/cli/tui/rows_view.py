"""A list of lines that redraws only the lines that differ from those on the screen."""

from collections.abc import Callable
from typing import Any

from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from sm.cli.tui.cells import Cells, segments

_NOTHING: Cells = ()


class RowsView(ScrollView, can_focus=False):
    """Asks `cells(index, width)` for a line when it may have to be drawn."""

    class Clicked(Message):
        def __init__(self, view: "RowsView", place: int) -> None:
            super().__init__()
            self.view = view
            self.place = place

    class Pointed(Message):
        """The pointer moves over the list."""

    def __init__(self, cells: Callable[[int, int], Cells], **options: Any) -> None:
        super().__init__(**options)
        self._cells = cells
        self._drawn: dict[int, Cells] = {}
        """The lines on the screen by their place there."""
        self._next: dict[int, Cells] = {}
        """The lines to draw by their place there, computed by `redraw`."""
        self._count = 0
        self._is_filled = False

    def repaint(self, *, filled: bool) -> None:
        """Draw all lines again. `filled`: with the colours of the theme in place of those of the terminal."""
        self._is_filled = filled
        self._drawn.clear()
        self.refresh()

    def show(self, count: int, place: int, *, anchor: int | None = None, last: bool = False) -> None:
        """Show `count` lines with the one at `place` in sight.

        `anchor`: the place of that line before its order was taken anew, so that it stays where it is on the screen.
        `last`: show a further line, which cannot be selected.
        """
        width, height = self.scrollable_content_region.size
        top = self.scroll_offset.y
        lines = count + last
        if lines != self._count:
            self._count = lines
            self._resize_content(Size(width, lines), height)
        if anchor is not None:
            top += place - anchor
        if height > 0:
            below = place + 1 if last and place == count - 1 else place
            top = min(max(top, below - height + 1), place)
        top = max(0, min(top, lines - height))
        if top != self.scroll_offset.y:
            self.scroll_to(y=top, animate=False, force=True, immediate=True)
        self.redraw()

    def _resize_content(self, size: Size, height: int) -> None:
        """Take the size of all lines. `height`: that of the lines in sight."""
        if (size.height > height) != self.show_vertical_scrollbar:
            self.virtual_size = size
            return
        # No other region moves, and a layout of the whole screen would cost more than the drawing of all lines.
        self.set_reactive(ScrollView.virtual_size, size)
        if self.show_vertical_scrollbar:
            self.vertical_scrollbar.window_virtual_size = size.height

    @property
    def line_width(self) -> int:
        """The cells of a line, without those of a scrollbar."""
        return self.scrollable_content_region.width

    def redraw(self) -> None:
        """Redraw the lines on the screen that differ."""
        width, height = self.line_width, self.size.height
        top = self.scroll_offset.y
        self._next.clear()
        for y in range(height):
            cells = self._line(top + y, width)
            if cells != self._drawn.get(y):
                self._next[y] = cells
                self.refresh_line(y + top)

    def _line(self, place: int, width: int) -> Cells:
        return self._cells(place, width) if place < self._count else _NOTHING

    def render_line(self, y: int) -> Strip:
        width = self.line_width
        cells = self._next.pop(y, None)
        if cells is None:
            cells = self._line(self.scroll_offset.y + y, width)
        self._drawn[y] = cells
        strip = Strip(segments(cells))
        if not self._is_filled:
            return strip.adjust_cell_length(width)
        # Textual computes the style at each access, which takes a sixth of the time of a line.
        style = self.rich_style
        return strip.adjust_cell_length(width, style).apply_style(style)

    def on_click(self, event: events.Click) -> None:
        place = self.scroll_offset.y + event.y
        if place < self._count:
            self.post_message(self.Clicked(self, place))

    def on_mouse_move(self) -> None:
        self.post_message(self.Pointed())
