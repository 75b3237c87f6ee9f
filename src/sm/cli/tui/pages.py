"""Pages of `sm top` that stay up to date while they are open: a session, events, spend and timeline."""

import asyncio
import shlex
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from sm.board import BoardNeed
from sm.board.guard import DEAD_S
from sm.cli.tui import texts
from sm.cli.tui.cells import fitted
from sm.cli.tui.changes_view import ChangesView
from sm.cli.tui.key_hints import page_line
from sm.cli.tui.screens import FullPage, TextPage, scroll_by_key
from sm.cli.tui.spots import SpotCursor, Spots
from sm.cli.tui.texts import Hint
from sm.core.dataclass import dataclass
from sm.core.quotation import wrapped_at_blanks
from sm.errors import SmError

_EVERY_S = 1.0
CHANGES_HINT = f"{texts.keys_of_changes()}  [ ]: other tab  ?: keys"
_SPOTS_HINT = "arrows, h j k l or the pointer: the numbers of a span  [ ]: other tab"

PageLines = Sequence[str | Text]
"""A text wraps; a `Text` is one line, which the screen may cut."""


@dataclass(frozen=True, slots=True)
class PageTab:
    """A part of a page. It has either `read`, which is called in a thread, or `follow`, or lines of its own."""

    title: str
    command: Sequence[str]
    """The equivalent `sm` command, or empty if there is none."""
    lines: Callable[[Any, int], PageLines] = lambda answer, width: answer
    """The lines of an answer for a width."""
    read: Callable[[], Any] | None = None
    follow: Callable[[Callable[[Any], object]], Coroutine[Any, Any, None]] | None = None
    """Calls its argument with each answer, until it is cancelled."""
    follows: bool = False
    """New lines come at the end, which stays in sight."""
    has_changes: bool = False
    """The answers are `ShownChanges`, which have a region and keys of their own."""
    need: Callable[[], BoardNeed | None] | None = None
    """The request that the lines show now, if the tab can show one."""
    heading: str = ""
    """The title of the page without a command, if it differs from that of the tab."""
    every_s: float = _EVERY_S
    """The least time between two calls of `read`."""
    spots: Callable[[Any, int], Spots] | None = None
    """The places of a picture that the cursor and the pointer can be on, or None if the tab has no cursor."""


class FollowPage(FullPage):
    """The result is the key of an action that the person pressed, or None after Esc or q.

    `hints`: gets the request that the lines show, and returns the actions of that moment. A key has no effect in the
    first half second after the page or its request has appeared.
    """

    CSS = """
    FollowPage { background: $surface; }
    FollowPage #title { width: 100%; height: 1; text-style: reverse; }
    FollowPage #tabs { width: 100%; height: 1; }
    FollowPage #text { width: 100%; height: auto; text-wrap: nowrap; }
    FollowPage #keys { width: 100%; height: 1; }
    """

    def __init__(
        self,
        tabs: Sequence[PageTab],
        place: int = 0,
        *,
        hints: Callable[[BoardNeed | None], Sequence[Hint]] = lambda need: (),
    ) -> None:
        super().__init__()
        self._tabs, self._place = tabs, place
        self._hints = hints
        self.need: BoardNeed | None = None
        """The request in the lines, as it was drawn last."""
        self._need_s = time.monotonic()
        self._answer: Any = None
        self._is_read = False
        self._is_reading = False
        self._next_s = 0.0
        """The time of the next call of `read`."""
        self._trouble = ""
        self._shown: list[str | Text] = []
        self._end: Callable[[], object] | None = None
        self._cursor = SpotCursor()

    def compose(self) -> ComposeResult:
        yield Static(id="title")
        yield Static(id="tabs")
        with VerticalScroll(can_focus=False):
            yield Static(id="text")
        yield ChangesView()
        yield Static(id="keys")

    def on_mount(self) -> None:
        self._open(self._place)
        self.set_interval(_EVERY_S, self._refresh)

    def on_unmount(self) -> None:
        self._leave()

    def on_resize(self) -> None:
        self._shown = []
        self.call_after_refresh(self._draw)

    def turn(self, steps: int) -> None:
        """Show another tab."""
        self._open((self._place + steps) % len(self._tabs))

    def on_click(self, event: events.Click) -> None:
        self._point(event)
        if event.widget is not None and event.widget.id == "tabs":
            for place, (begin, end) in enumerate(self._tab_places()):
                if begin <= event.x < end:
                    self._open(place)

    # Content

    @property
    def _tab(self) -> PageTab:
        return self._tabs[self._place]

    @property
    def _changes(self) -> ChangesView:
        return self.query_one(ChangesView)

    def _leave(self) -> None:
        end, self._end = self._end, None
        if end is not None:
            end()

    def _open(self, place: int) -> None:
        self._leave()
        self._place, self._answer, self._is_read, self._trouble = place, None, False, ""
        self._shown, self._cursor, self._next_s = [], SpotCursor(), 0.0
        self.query_one(VerticalScroll).scroll_home(animate=False)
        tab = self._tab
        self.query_one(VerticalScroll).display = not tab.has_changes
        self._changes.display = tab.has_changes
        self._changes.begin()
        if tab.follow is not None:
            self._end = self.run_worker(tab.follow(partial(self._take, tab))).cancel
        self._refresh()
        self._draw()

    def _refresh(self) -> None:
        tab = self._tab
        if tab.read is not None:
            if not self._is_reading and time.monotonic() >= self._next_s:
                self._is_reading, self._next_s = True, time.monotonic() + tab.every_s
                self.run_worker(self._read(tab, tab.read))
        elif tab.follow is None:
            self._is_read = True
            self._draw()

    async def _read(self, tab: PageTab, read: Callable[[], Any]) -> None:
        try:
            answer = await asyncio.to_thread(read)
        except SmError as error:
            if tab is self._tab:
                self._trouble = error.message
                self._draw()
        else:
            self._take(tab, answer)
        finally:
            self._is_reading = False
        if tab is not self._tab:  # the person has turned the page meanwhile
            self._refresh()

    def _take(self, tab: PageTab, answer: Any) -> None:
        if tab is self._tab and self.is_mounted:
            self._answer, self._is_read, self._trouble = answer, True, ""
            self._draw()

    def _draw(self) -> None:
        if not self.is_mounted or not self.query("#text"):
            return
        tab, width = self._tab, max(20, self.app.size.width - 2)
        command = shlex.join(tab.command) if tab.command else tab.heading or tab.title
        trouble = f" | not up to date: {self._trouble}" if self._trouble else ""
        title = fitted(f"{command} (Esc: back){trouble}", self.app.size.width)
        self.query_one("#title", Static).update(Text(title))
        self.query_one("#tabs", Static).update(self._tab_line())
        if tab.has_changes:
            self._take_need(None)
            self._changes.show(self._answer if self._is_read else None)
            self._show_keys("  ".join(filter(None, (self._changes.summary, CHANGES_HINT))))
            return
        self._take_need(tab.need() if tab.need is not None and self._is_read else None)
        lines: PageLines = tab.lines(self._answer, width) if self._is_read else ["loading"]
        if tab.spots is not None and self._is_read:
            self._cursor.show(tab.spots(self._answer, width))
        lines = self._with_cursor(lines)
        if list(lines) == self._shown:
            return
        scroll = self.query_one(VerticalScroll)
        was_at_end = scroll.scroll_y >= scroll.max_scroll_y or not self._shown
        self._shown = list(lines)
        parts = list[Text]()
        for piece in lines:
            parts += [piece] if isinstance(piece, Text) else map(Text, wrapped_at_blanks(piece, width))
        self.query_one("#text", Static).update(Text("\n").join(parts))
        if tab.follows and was_at_end:
            self.call_after_refresh(scroll.scroll_end, animate=False)

    def _take_need(self, need: BoardNeed | None) -> None:
        before, self.need = self.need, need
        if need is not None and (before is None or (before.key, before.digest) != (need.key, need.digest)):
            self._need_s = time.monotonic()

    def _with_cursor(self, lines: PageLines) -> PageLines:
        """Show the spot of the cursor in the picture, and its words in the last line."""
        current = self._cursor.current
        if current is not None:
            self._show_keys(current[1].words)
        elif self._tab.spots is not None:
            self._show_keys(_SPOTS_HINT)
        else:
            has_tabs, hints = len(self._tabs) > 1, self._hints(self.need)
            self._show_keys(page_line(hints, self.app.size.width, has_tabs=has_tabs))
        if current is None:
            return lines
        place, spot = current
        marked = list(lines)
        if isinstance(text := marked[place], Text):
            marked[place] = text = text.copy()
            # A character of the label may take two cells.
            begin, end = (len(set_cell_size(text.plain, cells)) for cells in (spot.start, spot.end + 1))
            text.stylize(Style(reverse=True), begin, end)
        return marked

    def _show_keys(self, text: str) -> None:
        self.query_one("#keys", Static).update(Text(fitted(text, self.app.size.width)))

    def _point(self, event: events.MouseEvent) -> None:
        region = self.query_one("#text").region
        if self._cursor.point(event.screen_y - region.y, event.screen_x - region.x):
            self._draw()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self._point(event)

    def _walk(self, *, steps: int = 0, lines: int = 0) -> None:
        """Move the cursor of a picture, and keep its line in sight."""
        if steps:
            self._cursor.step(steps)
        else:
            self._cursor.move(lines)
        self._draw()
        if (current := self._cursor.current) is not None:
            scroll, line = self.query_one(VerticalScroll), current[0]
            top = min(scroll.scroll_y, line)
            scroll.scroll_to(y=max(top, line - scroll.size.height + 1), animate=False)

    def _tab_line(self) -> Text:
        if self._tab_places()[-1][1] > self.app.size.width:
            return Text(f"< {self._tab.title} > {self._place + 1} of {len(self._tabs)}")
        text = Text()
        for place, tab in enumerate(self._tabs):
            text.append(f" {place + 1} {tab.title} ", Style(reverse=place == self._place))
        return text

    def _tab_places(self) -> list[tuple[int, int]]:
        """The first column of each tab, and the one behind it."""
        places, begin = list[tuple[int, int]](), 0
        for number, tab in enumerate(self._tabs, 1):
            end = begin + cell_len(f" {number} {tab.title} ")
            places.append((begin, end))
            begin = end
        return places

    # Keys

    def on_key(self, event: events.Key) -> None:
        has_changes, has_cursor = self._tab.has_changes, self._tab.spots is not None
        scroll = self._changes.lines if has_changes else self.query_one(VerticalScroll)
        match event.key:
            case _ if has_changes and self._changes.press(event.character):
                pass
            case "left" | "right" | "h" | "l" if has_cursor:
                self._walk(steps=1 if event.key in ("right", "l") else -1)
            case "up" | "down" | "j" | "k" if has_cursor:
                self._walk(lines=1 if event.key in ("down", "j") else -1)
            case "question_mark":
                has_tabs = len(self._tabs) > 1
                hint = "  ".join(f"{key}: {effect}" for key, effect in self._hints(self.need))
                keys = texts.page_help(
                    hint, has_tabs=has_tabs, has_cursor=has_cursor, has_changes=has_changes
                )
                _ = self.app.push_screen(TextPage("Keys of this page (Esc: back)", keys))
            case "escape" | "q" | "enter":
                _ = self.dismiss(None)
            case "right_square_bracket" | "right":
                self.turn(1)
            case "left_square_bracket" | "left":
                self.turn(-1)
            case key if scroll_by_key(scroll, key):
                pass
            case digit if digit.isdecimal() and 0 < int(digit) <= len(self._tabs):
                self._open(int(digit) - 1)
            case _:
                if event.character not in {key for key, _ in self._hints(self.need)}:
                    return
                if time.monotonic() - self._need_s >= DEAD_S:
                    _ = self.dismiss(event.character)
        event.stop()
