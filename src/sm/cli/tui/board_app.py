"""The list of `sm top`: its regions, and what they show. `app` adds the keys and the actions."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.widgets import Static

from sm import __version__
from sm.board import Board, BoardNeed, Chip, Line, Target, chips
from sm.board.choices import folds_after
from sm.board.details import earlier_command, earlier_words, needs_title, request_lines, target_lines
from sm.board.needs_list import NeedsList
from sm.board.order import Sort
from sm.cli.tui import texts
from sm.cli.tui.appearance import next_theme, show_theme
from sm.cli.tui.cells import Cells, fitted, need_cells, quiet_cells, session_cells, session_header
from sm.cli.tui.ending import end_with_terminal
from sm.cli.tui.kept import KeptChoices
from sm.cli.tui.layout import CSS, detail_width, lay_out
from sm.cli.tui.notices import notice_sequence
from sm.cli.tui.rows_view import RowsView
from sm.cli.tui.screens import KeyQuestion, LinePrompt, TextPage, Turnable
from sm.cli.tui.source import ThreadedSource
from sm.client.http import Client
from sm.core.dataclass import dataclass
from sm.core.text import folded
from sm.feed import Feed, FeedNews, Mail, Situation

_AGES_EVERY_S = 1.5
"""The least time between two drawings of ages alone: with a tick each second, every other one draws."""
_DRAW_EVERY_S = 0.25
_CACHED_MAX = 500
_HINT = "?: help  Tab: switch  Enter: details  a: approve  d: deny  s: send  n: new  /: filter  colon: actions  q: quit"


@dataclass(frozen=True, slots=True)
class Pace:
    """How long the view waits for the person, in seconds."""

    rest_s: float = 2.0
    """Nothing has been pressed or pointed at for this time: the order may be taken anew."""
    notice_s: float = 8.0
    undo_s: float = 5.0


class BoardApp(App[None]):
    ENABLE_COMMAND_PALETTE = False
    BINDINGS = [  # noqa: RUF012  as in textual
        Binding("tab", "switch_region(1)", show=False, priority=True),
        Binding("shift+tab", "switch_region(-1)", show=False, priority=True),
        Binding("ctrl+c", "quit", show=False),
        Binding("ctrl+z", "suspend_process", show=False),
    ]
    CSS = CSS

    def __init__(self, client: Client, pace: Pace | None = None, kept: KeptChoices | None = None) -> None:
        super().__init__(ansi_color=True)
        self._kept = kept or KeptChoices()
        self.choices = self._kept.read()
        self.pace = pace or Pace()
        self.source = ThreadedSource(client)
        self._feed = Feed(self.source, self.take, archived=self.choices.archived)
        self._situation = Situation(self._feed.ask)
        self.board = Board(self._situation.table)
        chosen = self.choices
        self.board.show(0.0, workspace=chosen.workspace, sort=chosen.sort, folded=chosen.folded)
        self.needs = NeedsList()
        self.in_needs = False
        """The selection is in the region of what needs the person."""
        self._cwd = _working_directory()
        self._touched_s = self._drawn_s = 0.0
        self._is_draw_due = False
        self._texts: dict[str, Text | str] = {}
        self._cells: dict[str, tuple[Line, tuple[object, ...], Cells]] = {}
        """The cells of each session that was drawn, with all that they depend on."""
        self._notice: tuple[str, float] = ("", 0.0)

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
        self._show_theme()
        end_with_terminal(self)  # else the terminal would stay as it is
        self.run_worker(self._feed.run(), name="feed")
        self.set_interval(1.0, self._tick)

    def on_resize(self) -> None:
        self.call_after_refresh(self.draw)

    @property
    def found(self) -> Sequence[BoardNeed]:
        """The entries that need the person."""
        return self._situation.found

    @property
    def target(self) -> Target:
        return self.board.target(self.needs.current if self.in_needs else None, cwd=self._cwd)

    @property
    def chips(self) -> Sequence[Chip]:
        return chips(self.board.rows, self.found, self._situation.workspaces, self.board.workspace)

    @property
    def _shown_chips(self) -> Sequence[Chip]:
        return texts.chips_in_sight(self.chips, self.board.workspace, self.size.width)

    # News of the daemon

    def take(self, news: FeedNews) -> None:
        """Take one piece of news of the feed, which notes if that fails."""
        if (change := self._situation.take(news, time.monotonic())) is not None:
            self.board.take(change)
        if isinstance(news, Mail) and self.board.workspace not in (None, *news.workspaces):
            self.choose(None)
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

    def _tick(self) -> None:
        """Draw the new ages: every second while something needs the person or counts down, else every other one."""
        clock_s = time.monotonic()
        counts = self.found or self.undo_text(clock_s) or self.board.lost_for_s(clock_s) is not None
        if counts or clock_s - self._drawn_s >= _AGES_EVERY_S:
            self.draw()

    def draw(self) -> None:
        clock_s = time.monotonic()
        self._drawn_s, self._is_draw_due = clock_s, False
        if not self.is_running or not self.screen_stack or not self.main.query("#foot"):
            return
        board, before = self.board, self.board.place
        rests = clock_s - self._touched_s >= self.pace.rest_s
        is_changed = board.refresh(clock_s, rests=rests)
        self._find_needs(clock_s)
        lay_out(self.main, self.size, len(self.found), in_needs=self.in_needs)
        self.rows_view("list").show(
            len(board.lines), board.place, anchor=before if is_changed else None, last=bool(board.earlier)
        )
        self.rows_view("needs").show(len(self.found), self.needs.place)
        self._write_texts(clock_s)

    def _find_needs(self, clock_s: float) -> None:
        if self._situation.mail is None:
            return
        self._situation.find_needs(clock_s)
        news = self.needs.update(self.found, clock_s)
        over = {news.vanished} if news.vanished is not None and self.in_needs else set[str]()
        for key in over | self._close_dialog():
            self.tell_who_was_faster(key)
        self._announce([need for need in news.new if need.is_urgent])
        if not self.found:
            self.in_needs = False

    def _close_dialog(self) -> set[str]:
        """Close the dialog of a request that is no longer open, and return its key."""
        screen = self.screen
        if not isinstance(screen, KeyQuestion | LinePrompt | TextPage) or not screen.about:
            return set()
        if screen.about in {need.key for need in self.found}:
            return set()
        _ = screen.dismiss(None)
        return {screen.about}

    def _announce(self, new: Sequence[BoardNeed]) -> None:
        """Ring the bell, and show a notice of the desktop if the person looks at another window."""
        if not new:
            return
        self.bell()
        if not self.app_focus and self._driver is not None:
            more = f" (and {len(new) - 1} more)" if len(new) > 1 else ""
            text = f"{new[0].label}: {new[0].text}{more}"
            self._driver.write(notice_sequence(os.environ, text))

    def _write_texts(self, clock_s: float) -> None:
        board, now_s = self.board, self.board.now_s(clock_s)
        lost_s = board.lost_for_s(clock_s)
        version = self._situation.daemon_version
        newer = "" if version == __version__ else version
        head = texts.head(board, lost_s, self._situation.outage, newer, self._situation.unshown)
        self._write("head", fitted(head, self.size.width))
        self._write("columns", session_header(self.rows_view("list").line_width))
        self._write("chips", texts.chip_line(self._shown_chips, board.workspace))
        self._write("needs-title", needs_title(self.found, self._situation.quiet.since_s, now_s))
        self._write("foot", self._foot(clock_s))
        detail = self.main.query_one("#detail", Static)
        if detail.display:
            lines = target_lines(self.target, now_s, detail_width(self.size.width))
            self._write("detail", texts.detail_text(lines))

    def _write(self, name: str, text: Text | str) -> None:
        if self._texts.get(name) != text:
            self._texts[name] = text
            shown = Text(text) if isinstance(text, str) else text
            # Every region has a fixed size: a layout of the whole screen would cost more than its drawing.
            self.main.query_one(f"#{name}", Static).update(shown, layout=False)

    def _foot(self, clock_s: float) -> str:
        text, until_s = self._notice
        return self.undo_text(clock_s) or (text if clock_s < until_s else _HINT)

    def _session_line(self, place: int, width: int) -> Cells:
        clock_s, board = time.monotonic(), self.board
        if place >= len(board.lines):
            command = earlier_command(board, archived=self.choices.archived)
            return quiet_cells(f"  {earlier_words(board)}: {command}", width)
        line = board.lines[place]
        now_s, fresh = board.now_s(clock_s), self._is_fresh
        state = "" if line.row.id != board.selected else "marked" if self.in_needs else "cursor"
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
        state = "" if place != self.needs.place else "cursor" if self.in_needs else ""
        now_s = self.board.now_s(clock_s)
        return need_cells(self.found[place], width, now_s, state=state, fresh=self._is_fresh)

    # What the person chooses

    def choose(self, workspace: str | None) -> None:
        """Show the sessions of a workspace, or of all with None."""
        self.board.choose(workspace, time.monotonic())
        self._keep(workspace=workspace)

    def sort_by(self, sort: Sort) -> None:
        self.board.sort_by(sort, time.monotonic())
        self._keep(sort=sort)

    def fold(self, session_id: str, folded: bool | None) -> None:
        """Hide or show the descendants of a session, or toggle it with None."""
        self.board.fold(session_id, time.monotonic(), folded=folded)
        self._keep(folded=folds_after(self.choices.folded, session_id, self.board.folded))

    def toggle_archived(self) -> None:
        self._keep(archived=not self.choices.archived)
        self._feed.show_archived(self.choices.archived)
        self.tell(f"archived sessions are {'shown' if self.choices.archived else 'hidden'}")

    def next_theme(self) -> None:
        if self.no_color:
            self.tell("NO_COLOR is set: there are no colours")
            return
        self._keep(theme=next_theme(self.choices.theme))
        self._show_theme()
        self.tell(f"colours: {self.choices.theme}")

    def _show_theme(self) -> None:
        filled = show_theme(self, self.choices.theme)
        for name in ("needs", "list"):
            self.rows_view(name).repaint(filled=filled)

    def _keep(self, **changes: Any) -> None:
        self.choices = replace(self.choices, **changes)
        self._kept.write(self.choices)

    # What the actions add

    def undo_text(self, clock_s: float) -> str:
        """The offer to undo the last action, or empty if there is none."""
        raise NotImplementedError

    def tell_who_was_faster(self, key: str) -> None:
        """Say who answered a request that was selected, or had a dialog, and has vanished."""
        raise NotImplementedError

    # What the keys and actions use

    def action_switch_region(self, steps: int) -> None:
        if isinstance(self.screen, Turnable):
            self.screen.turn(steps)
        elif len(self.screen_stack) == 1:
            self.switch(to_needs=not self.in_needs)
            self.draw()

    def on_rows_view_pointed(self) -> None:
        self._touched_s = time.monotonic()

    def on_rows_view_clicked(self, event: RowsView.Clicked) -> None:
        self.switch(to_needs=event.view.id == "needs")
        if self.in_needs:
            self.needs.select(event.place)
        elif event.place < len(self.board.lines):  # the last line is no session
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
    def _is_fresh(self) -> bool:
        """True if the view shows all news of a daemon that is there."""
        return not self.is_lost and not self._situation.unshown

    def shows_beside_list(self, request: Mapping[str, Any]) -> bool:
        """Return whether every line of the selected request is in sight beside the list."""
        detail = self.main.query_one("#detail")
        if not detail.display:
            return False
        width = detail_width(self.size.width)
        lines = request_lines(request, self.board.now_s(time.monotonic()), width)
        return len(lines) <= detail.size.height

    @property
    def need_line_width(self) -> int:
        """The cells of a line of what needs you, or 0 if the region is not in sight."""
        view = self.rows_view("needs")
        return view.line_width if view.display else 0

    @property
    def page_size(self) -> int:
        return max(1, self.rows_view("list").size.height - 1)

    def move(self, steps: int) -> None:
        if self.in_needs:
            self.needs.select(self.needs.place + steps)
        else:
            self.board.move(steps)

    def switch(self, *, to_needs: bool) -> bool:
        """Go to a region, and return whether that is another one. What needs you has one only if there is something."""
        before, self.in_needs = self.in_needs, to_needs and bool(self.found)
        return before != self.in_needs

    def select_need(self, key: str) -> bool:
        """Select an entry of what needs you. Returns False while it is not there."""
        if self.needs.select_key(key):
            self.switch(to_needs=True)
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


def _working_directory() -> str:
    """The directory of this process; empty if it was deleted."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""
