"""The list of `sm top`: its regions, and what they show. `app` adds the keys and the actions."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.reactive import Reactive
from textual.screen import Screen
from textual.widgets import Static

from sm import __version__
from sm.board import Board, BoardNeed, Chip, Target, chips
from sm.board.choices import Theme, folds_after
from sm.board.details import needs_title, request_lines, shown_target, target_lines
from sm.board.needs_list import NeedsList
from sm.board.order import Sort
from sm.cli.tui import texts
from sm.cli.tui.appearance import THEMES, next_theme, show_theme
from sm.cli.tui.below_list import BelowList, BelowPlace
from sm.cli.tui.cells import fitted
from sm.cli.tui.ending import end_with_terminal
from sm.cli.tui.filter_field import FilterField
from sm.cli.tui.kept import KeptChoices
from sm.cli.tui.layout import CSS, ListContent, detail_width, lay_out
from sm.cli.tui.list_lines import ListCursor, ListLines
from sm.cli.tui.notices import notice_sequence
from sm.cli.tui.process import Pace, working_directory
from sm.cli.tui.rows_view import RowsView
from sm.cli.tui.screens import FullPage, Turnable, close_dialog
from sm.cli.tui.source import ThreadedSource
from sm.client.http import Client
from sm.core.states import RequestKind
from sm.core.text import folded
from sm.feed import Feed, FeedNews, Mail, Situation

if TYPE_CHECKING:
    from sm.board.equal_requests import EqualRequests

_AGES_EVERY_S = 1.5
"""The least time between two drawings of ages alone: with a tick each second, every other one draws."""
_DRAW_EVERY_S = 0.25
_COMPLETE_AFTER_S = 0.05
"""After this time, the first rows are on the terminal, which another thread writes to."""


class BoardApp(App[None]):
    ENABLE_COMMAND_PALETTE = False
    BINDINGS = [  # noqa: RUF012  as in textual
        Binding("tab", "switch_region(1)", show=False, priority=True),
        Binding("shift+tab", "switch_region(-1)", show=False, priority=True),
        Binding("ctrl+c", "quit", show=False),
        Binding("ctrl+z", "suspend_process", show=False),
    ]
    CSS = CSS
    # The default of textual would be replaced at each start, with a second look at all styles.
    theme = Reactive(THEMES[Theme.SYSTEM])

    def __init__(
        self,
        client: Client,
        pace: Pace | None = None,
        kept: KeptChoices | None = None,
        source: ThreadedSource | None = None,
    ) -> None:
        """`source`: may have begun to read the rows."""
        super().__init__(ansi_color=True)
        self._kept = kept or KeptChoices()
        self.choices = self._kept.read()
        self.pace = pace or Pace()
        self.source = source or ThreadedSource(client)
        self._feed = Feed(self.source, self.take, archived=self.choices.archived)
        self._situation = Situation(self._feed.ask)
        self.board = Board(self._situation.table)
        chosen = self.choices
        self.board.show(0.0, workspace=chosen.workspace, sort=chosen.sort, folded=chosen.folded)
        self.needs = NeedsList()
        self.in_needs = False
        """The selection is in the region of what needs the person."""
        self._cwd = working_directory()
        self._touched_s = self._drawn_s = 0.0
        self._is_draw_due = False
        self._texts: dict[str, Text | str] = {}
        self._lines = ListLines(self.board, lambda: self.found)
        self._is_begun = False
        """The selection has its first place."""
        self._notice: tuple[str, float] = ("", 0.0)
        self._equal_count = 0
        """The number of requests in `equal_group`."""
        self._is_laid_out = False
        """The regions have their sizes."""
        self._is_complete = False
        """The regions have all that the first drawing does not need."""

    # Regions

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield Static(id="chips")
        with Vertical(id="needs-region"):
            yield Static(id="needs-title")
            yield RowsView(self._lines.need, id="needs")
        with Horizontal(id="main"):
            with Vertical(id="list-region"):
                yield Static(id="columns")
                yield RowsView(self._lines.session, id="list")
                yield BelowList(self.source)
            yield Static(id="detail")
        yield Static(id="foot")
        yield FilterField(self._filter_by)

    @property
    def main(self) -> Screen[object]:
        """The screen with the regions, also while a page or a prompt is over it."""
        return self.screen_stack[0]

    @property
    def _has_regions(self) -> bool:
        return self.is_running and bool(self.screen_stack) and bool(self.main.query("#foot"))

    def rows_view(self, name: str) -> RowsView:
        return self.main.query_one(f"#{name}", RowsView)

    def on_mount(self) -> None:
        self.main.query_one("#needs-region").styles.height = "auto"
        self._show_theme()
        end_with_terminal(self)  # else the terminal would stay as it is
        self.run_worker(self._feed.run(), name="feed")
        self.set_interval(1.0, self._tick)

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw_laid_out)

    def _draw_laid_out(self) -> None:
        self._is_laid_out = True
        self.draw()

    @property
    def found(self) -> Sequence[BoardNeed]:
        """The entries that need the person."""
        return self._situation.found

    @property
    def target(self) -> Target:
        return self.board.target(self.needs.current if self.in_needs else None, cwd=self._cwd)

    @property
    def shown(self) -> Target:
        """The selection, with the request for which a selected agent waits."""
        return shown_target(self.target, self.found)

    @property
    def equal_group(self) -> "EqualRequests | None":
        """The requests that may be answered with the shown one, or None without another one."""
        need = self.shown.need
        if need is None or need.request is None or need.request["kind"] != RequestKind.PERMISSION:
            return None
        from sm.board.equal_requests import equal_requests  # the first drawing rarely needs it

        group = equal_requests(self.found, self.board.rows).get(need.key)
        return group if group is not None and len(group.keys) > 1 else None

    @property
    def chips(self) -> Sequence[Chip]:
        return chips(self.board.rows, self.found, self._situation.workspaces, self.board.workspace)

    @property
    def _shown_chips(self) -> Sequence[Chip]:
        return texts.chips_in_sight(self.chips, self.board.workspace, self.size.width)

    # News of the daemon

    def take(self, news: FeedNews) -> None:
        """Take one piece of news of the feed, which notes if that fails."""
        is_first = self.board.revision is None
        if (change := self._situation.take(news, time.monotonic())) is not None:
            self.board.take(change)
        if isinstance(news, Mail) and self.board.workspace not in (None, *news.workspaces):
            self.choose(None)
        if is_first and self.board.revision is not None:
            self.draw()
            self.set_timer(_COMPLETE_AFTER_S, self._complete_regions)
        else:
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
        if not self._is_complete:
            self._complete_regions()
        clock_s = time.monotonic()
        counts = self.found or self.undo_text(clock_s) or self.board.lost_for_s(clock_s) is not None
        if counts or clock_s - self._drawn_s >= _AGES_EVERY_S:
            self.draw()

    def draw(self) -> None:
        clock_s = time.monotonic()
        self._drawn_s, self._is_draw_due = clock_s, False
        if not self._has_regions:
            return
        board, before = self.board, self.board.place
        rests = clock_s - self._touched_s >= self.pace.rest_s
        is_changed = board.refresh(clock_s, rests=rests)
        self._find_needs(clock_s)
        lines = len(board.lines) + bool(board.earlier)
        lay_out(self.main, self.size, ListContent(len(self.found), lines, self.in_needs))
        self._lines.prepare(
            ListCursor(
                self.in_needs,
                self.needs.place,
                self.target.session_id,
                self._is_fresh,
                self.choices.archived,
            ),
            self.rows_view("list").line_width,
        )
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
        for key in over | close_dialog(self.screen, {need.key for need in self.found}):
            self.tell_who_was_faster(key)
        self._announce([need for need in news.new if need.is_urgent])
        if not self._is_begun and self.board.revision is not None:
            self._is_begun = True
            # What is urgent comes first. A person who has pressed a key already has chosen a place.
            self.in_needs = self.in_needs or (not self._touched_s and any(n.is_urgent for n in self.found))
        if not self.found:
            self.in_needs = False

    def _announce(self, new: Sequence[BoardNeed]) -> None:
        """Ring the bell, and show a notice of the desktop if the person looks at another window."""
        if new:
            self.bell()
            if not self.app_focus and self._driver is not None:
                self._driver.write(notice_sequence(os.environ, texts.announcement(new)))

    def _write_texts(self, clock_s: float) -> None:
        board, now_s = self.board, self.board.now_s(clock_s)
        lost_s = board.lost_for_s(clock_s)
        version = self._situation.daemon_version
        newer = "" if version == __version__ else version
        head = texts.head(board, lost_s, self._situation.outage, newer, self._situation.unshown)
        self._write("head", fitted(head, self.size.width))
        if self._is_laid_out:
            self._write("columns", self._lines.header())
        self._write("chips", texts.chip_line(self._shown_chips, board.workspace))
        self._write("needs-title", needs_title(self.found, self._situation.quiet.since_s, now_s))
        group = self.equal_group if self._is_complete else None
        self._equal_count = 0 if group is None else len(group.keys)
        self._write("foot", self._foot(clock_s))
        shown, detail = self.shown, self.main.query_one("#detail", Static)
        keys = texts.keys_of_request(self.target, shown, self._equal_count)
        if detail.display:
            lines = target_lines(shown, now_s, detail_width(self.size.width), keys=keys)
            self._write("detail", texts.detail_text(lines))
        if self._is_laid_out:
            in_sight = not any(isinstance(screen, FullPage) for screen in self.screen_stack)
            place = BelowPlace(has_detail=detail.display, in_sight=in_sight, is_lost=self.is_lost)
            self._below.show(shown, now_s, keys, place)

    def _write(self, name: str, text: Text | str) -> None:
        if self._texts.get(name) != text:
            self._texts[name] = text
            shown = Text(text) if isinstance(text, str) else text
            # Every region has a fixed size: a layout of the whole screen would cost more than its drawing.
            self.main.query_one(f"#{name}", Static).update(shown, layout=False)

    def _foot(self, clock_s: float) -> str:
        text, until_s = self._notice
        return self.undo_text(clock_s) or (text if clock_s < until_s else self._hints())

    def _hints(self) -> str:
        """The keys for the selection. Their actions need as much time as the first drawing, so they come after it."""
        if not self._is_complete:
            return ""
        from sm.cli.tui.key_hints import hint_line, lost_line

        if self.board.lost_for_s(time.monotonic()) is not None:
            return lost_line(self.size.width)
        return hint_line(self.target, self.found, self.size.width, self._equal_count)

    def _complete_regions(self) -> None:
        if self._has_regions:
            self._is_complete = True
            self.filter_field.complete()
            self.draw()

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

    # The filter

    @property
    def filter_field(self) -> FilterField:
        return self.main.query_one(FilterField)

    def open_filter(self) -> None:
        """Let the person type a filter."""
        self.switch(to_needs=False)
        self.filter_field.open(self.board.filter_text)

    def _filter_by(self, text: str) -> None:
        self.board.filter_by(text, time.monotonic())
        self.draw()

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
        elif len(self.screen_stack) == 1 and not self.filter_field.is_open:
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

    def shows_whole(self, request: Mapping[str, Any]) -> bool:
        """Return whether every line of the selected request is in sight beside or below the list."""
        detail, now_s = self.main.query_one("#detail"), self.board.now_s(time.monotonic())
        if detail.display:
            return len(request_lines(request, now_s, detail_width(self.size.width))) <= detail.size.height
        return self._below.shows_whole(request, now_s)

    @property
    def _below(self) -> BelowList:
        return self.main.query_one(BelowList)

    @property
    def need_text_width(self) -> int:
        """The cells for the text of an entry that needs the person, or 0 if the region is not in sight."""
        view = self.rows_view("needs")
        return self._lines.need_widths(view.line_width).text if view.display else 0

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
        self._is_begun = True  # a place that was chosen before the first drawing stays
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
