"""The application of `sm top`: its regions, and what they show."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static

from sm.board import Board, BoardNeed, ButtonGuard, Chip, Line, Target, chips
from sm.board.details import needs_title, request_lines, target_lines
from sm.cli.tui import keyboard, texts
from sm.cli.tui.cells import Cells, fitted, need_cells, session_cells, session_header
from sm.cli.tui.notices import notice_sequence
from sm.cli.tui.rows_view import RowsView
from sm.cli.tui.runner import ActionRunner
from sm.client.http import Client
from sm.core.text import folded
from sm.feed import Feed, Situation

_DRAW_EVERY_S = 0.25
_WIDE, _NARROW, _LOW = 120, 60, 12
_CACHED_MAX = 500
_HINT = (
    "?: help  Tab: switch  Enter: details  a: approve  d: deny  s: send  /: filter  colon: actions  q: quit"
)


@dataclass(frozen=True, slots=True)
class Pace:
    """How long the view waits for the person, in seconds."""

    rest_s: float = 2.0
    """Nothing has been pressed or pointed at for this time: the order may be taken anew."""
    notice_s: float = 8.0
    undo_s: float = 5.0


class TopApp(App[None]):
    ENABLE_COMMAND_PALETTE = False
    BINDINGS = [  # noqa: RUF012  as in textual
        Binding("tab,shift+tab", "switch_region", show=False, priority=True),
        Binding("ctrl+c", "quit", show=False),
    ]
    CSS = """
    Screen { layout: vertical; }
    #head { height: 1; text-style: reverse; }
    #chips { height: 1; }
    #needs-title { height: 1; text-style: bold; }
    #needs { height: 1; }
    #needs, #list { overflow-x: hidden; scrollbar-size-vertical: 1; }
    #main { height: 1fr; }
    #list-region { width: 1fr; height: 1fr; }
    #columns { height: 1; text-style: bold; }
    #list { width: 1fr; height: 1fr; }
    #detail { width: 45; height: 1fr; padding: 0 0 0 1; text-wrap: nowrap; }
    #foot { height: 1; }
    """

    class FeedReady(Message):
        """The feed has something new."""

    def __init__(self, client: Client, pace: Pace | None = None) -> None:
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.pace = pace or Pace()
        self._feed = Feed(client, lambda: self.post_message(self.FeedReady()))
        self._situation = Situation(self._feed.ask)
        self.board = Board(self._situation.table)
        self.guard = ButtonGuard()
        self._in_needs = False
        self._need_place = 0
        self._need_key: str | None = None
        self.runner: ActionRunner = ActionRunner(self, client)
        self._touched_s = 0.0
        self._drawn_s = 0.0
        self._is_draw_due = False
        self._texts: dict[str, Text | str] = {}
        self._cells: dict[str, tuple[Line, tuple[object, ...], Cells]] = {}
        """The cells of each session that was drawn, with all that they depend on."""
        self._notice: tuple[str, float] = ("", 0.0)
        self._announced: set[str] | None = None

    # Regions

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield Static(id="chips")
        with Vertical(id="needs-region"):
            yield Static(id="needs-title")
            yield RowsView(self._need_line, id="needs")
        with Horizontal(id="main"):
            with Vertical(id="list-region"):
                yield Static(id="columns")
                yield RowsView(self._session_line, id="list")
            yield Static(id="detail")
        yield Static(id="foot")

    @property
    def main(self) -> Screen[object]:
        """The screen with the regions, also while a page or a prompt is over it."""
        return self.screen_stack[0]

    def rows_view(self, name: str) -> RowsView:
        return self.main.query_one(f"#{name}", RowsView)

    def on_mount(self) -> None:
        self.main.query_one("#needs-region").styles.height = "auto"
        self._feed.start()
        self.set_interval(1.0, self.draw)

    def on_unmount(self) -> None:
        self._feed.end()

    def on_resize(self) -> None:
        self.call_after_refresh(self.draw)

    @property
    def found(self) -> Sequence[BoardNeed]:
        """All entries that need a person."""
        return self._situation.found

    @property
    def target(self) -> Target:
        if self._in_needs and self.found:
            need = self.found[self._need_place]
            return Target(self.board.rows.get(need.session_id or ""), need)
        return Target(self.board.current)

    @property
    def chips(self) -> Sequence[Chip]:
        return chips(self.board.rows, self.found, self._situation.workspaces, self.board.workspace)

    # News of the daemon

    def on_top_app_feed_ready(self) -> None:
        clock_s = time.monotonic()
        for news in self._feed.take():
            if (change := self._situation.take(news, clock_s)) is not None:
                self.board.take(change)
        self.draw_soon()

    def draw_soon(self) -> None:
        """Draw now, or as soon as the last drawing is long enough ago."""
        wait_s = self._drawn_s + _DRAW_EVERY_S - time.monotonic()
        if self._is_draw_due:
            return
        if wait_s <= 0:
            self.draw()
        else:
            self._is_draw_due = True
            self.set_timer(wait_s, self.draw)

    # Drawing

    def draw(self) -> None:
        clock_s = time.monotonic()
        self._drawn_s, self._is_draw_due = clock_s, False
        if not self.is_running or not self.screen_stack or not self.main.query("#foot"):
            return
        board, before = self.board, self.board.place
        rests = clock_s - self._touched_s >= self.pace.rest_s
        is_changed = board.refresh(clock_s, rests=rests)
        self._find_needs(clock_s)
        self._lay_out()
        self.rows_view("list").show(len(board.lines), board.place, anchor=before if is_changed else None)
        self.rows_view("needs").show(len(self.found), self._need_place)
        self._write_texts(clock_s)

    def _find_needs(self, clock_s: float) -> None:
        if self._situation.mail is None:
            return
        self._situation.find_needs(clock_s)
        keys = [need.key for need in self.found]
        if self._need_key in keys:
            self._need_place = keys.index(self._need_key)
        else:
            if self._need_key is not None:
                self.guard.slide(clock_s)
                if self._in_needs:
                    self.runner.tell_who_was_faster(self._need_key)
            self._need_place = max(0, min(self._need_place, len(keys) - 1))
            self._need_key = keys[self._need_place] if keys else None
        self.guard.see(self.found, clock_s)
        if self._announced is not None:
            self._announce([need for need in self.found if need.key not in self._announced])
        self._announced = set(keys)
        if not self.found:
            self._in_needs = False

    def _announce(self, new: Sequence[BoardNeed]) -> None:
        """Ring the bell, and show a notice of the desktop if the person looks at another window."""
        if not new:
            return
        self.bell()
        if not self.app_focus and self._driver is not None:
            more = f" (and {len(new) - 1} more)" if len(new) > 1 else ""
            text = f"{new[0].label}: {new[0].text}{more}"
            self._driver.write(notice_sequence(os.environ, text))

    def _lay_out(self) -> None:
        width, height = self.size
        is_narrow, is_wide = width < _NARROW, width >= _WIDE
        is_low = height < _LOW
        one_region = is_narrow or is_low
        self.main.query_one("#detail").display = is_wide
        self.main.query_one("#detail").styles.width = max(45, width * 2 // 5)
        self.main.query_one("#chips").display = not is_low
        self.main.query_one("#foot").display = height > 5
        self.main.query_one("#main").display = not (one_region and self._in_needs)
        room = height - 4 if one_region and self._in_needs else max(1, height // 3 - 1)
        shown = 0 if one_region and not self._in_needs else min(len(self.found), room)
        self.main.query_one("#needs").display = shown > 0
        self.main.query_one("#needs").styles.height = max(1, shown)

    def _write_texts(self, clock_s: float) -> None:
        board, now_s = self.board, self.board.now_s(clock_s)
        lost_s = board.lost_for_s(clock_s)
        self._write("head", fitted(texts.head(board, lost_s, self._situation.outage), self.size.width))
        self._write("columns", session_header(self.rows_view("list").line_width))
        self._write("chips", texts.chip_line(self.chips, board.workspace))
        self._write("needs-title", needs_title(self.found, self._situation.quiet.since_s, now_s))
        self._write("foot", self._foot(clock_s))
        detail = self.main.query_one("#detail", Static)
        if detail.display:
            self._write("detail", "\n".join(target_lines(self.target, now_s, self._detail_width)))

    def _write(self, name: str, text: Text | str) -> None:
        if self._texts.get(name) != text:
            self._texts[name] = text
            shown = Text(text) if isinstance(text, str) else text
            # Every region has a fixed size: a layout of the whole screen would cost more than its drawing.
            self.main.query_one(f"#{name}", Static).update(shown, layout=False)

    def _foot(self, clock_s: float) -> str:
        text, until_s = self._notice
        return self.runner.undo_text(clock_s) or (text if clock_s < until_s else _HINT)

    def _session_line(self, place: int, width: int) -> Cells:
        clock_s = time.monotonic()
        board, line = self.board, self.board.lines[place]
        now_s, fresh = board.now_s(clock_s), board.lost_for_s(clock_s) is None
        state = "" if line.row.id != board.selected else "marked" if self._in_needs else "cursor"
        key = (line.row.status_text(now_s), state, fresh, width)
        known = self._cells.get(line.row.id)
        if known is None or known[0] is not line or known[1] != key:
            if len(self._cells) > _CACHED_MAX:
                self._cells.clear()
            cells = session_cells(line, width, now_s, state=state, fresh=fresh)
            known = self._cells[line.row.id] = (line, key, cells)
        return known[2]

    def _need_line(self, place: int, width: int) -> Cells:
        clock_s = time.monotonic()
        state = "" if place != self._need_place else "cursor" if self._in_needs else ""
        fresh = self.board.lost_for_s(clock_s) is None
        return need_cells(self.found[place], width, self.board.now_s(clock_s), state=state, fresh=fresh)

    # What the keys and actions use

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key | events.MouseDown):
            self._touched_s = time.monotonic()
        await super().on_event(event)

    def on_key(self, event: events.Key) -> None:
        if len(self.screen_stack) > 1:
            return
        key = event.character if event.character is not None and event.is_printable else event.key
        if keyboard.press(self, key):
            event.stop()
            self.draw()

    def action_switch_region(self) -> None:
        if len(self.screen_stack) == 1:
            self.switch(to_needs=not self._in_needs)
            self.draw()

    def on_rows_view_pointed(self) -> None:
        self._touched_s = time.monotonic()

    def on_rows_view_clicked(self, event: RowsView.Clicked) -> None:
        self.switch(to_needs=event.view.id == "needs")
        if self._in_needs:
            self._point(event.place)
        else:
            self.board.select(event.place)
        self.draw()

    def ask(
        self, screen: Screen[str | None], answered: Callable[[str | None], None] = lambda result: None
    ) -> None:
        """Put a page or a prompt over the list."""
        _ = self.push_screen(screen, answered)

    @property
    def is_lost(self) -> bool:
        return self.board.lost_for_s(time.monotonic()) is not None

    @property
    def _detail_width(self) -> int:
        return max(20, self.size.width * 2 // 5 - 2)

    def shows_beside_list(self, request: Mapping[str, Any]) -> bool:
        """Return whether every line of the selected request is in sight beside the list."""
        detail = self.main.query_one("#detail")
        if not detail.display:
            return False
        lines = request_lines(request, self.board.now_s(time.monotonic()), self._detail_width)
        return len(lines) <= detail.size.height

    @property
    def need_line_width(self) -> int:
        """The cells of a line of what needs you; 0: the region is not in sight."""
        view = self.rows_view("needs")
        return view.line_width if view.display else 0

    @property
    def page_size(self) -> int:
        return max(1, self.rows_view("list").size.height - 1)

    def move(self, steps: int) -> None:
        if self._in_needs:
            self._point(self._need_place + steps)
        else:
            self.board.move(steps)

    def switch(self, *, to_needs: bool) -> bool:
        """Go to a region, and return whether that is another one. What needs you has one only if there is something."""
        before, self._in_needs = self._in_needs, to_needs and bool(self.found)
        return before != self._in_needs

    def select_need(self, key: str) -> bool:
        """Select an entry of what needs you; False: it is not there yet."""
        for place, need in enumerate(self.found):
            if need.key == key:
                self.switch(to_needs=True)
                self._point(place)
                return True
        self.reload()
        return False

    def reload(self) -> None:
        """Read requests and messages again now."""
        self._feed.ask()

    def tell(self, text: str) -> None:
        """Show a line at the bottom for some seconds."""
        self._notice = (folded(text, 300), time.monotonic() + self.pace.notice_s)
        self.draw()

    def _point(self, place: int) -> None:
        self._need_place = max(0, min(place, len(self.found) - 1))
        self._need_key = self.found[self._need_place].key if self.found else None
