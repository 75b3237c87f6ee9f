"""The free lines below the list of `sm top`: the selected request, or the end of the selected session's terminal."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from rich.text import Text
from textual.widgets import Static
from textual.worker import Worker

from sm.board import Target
from sm.board.details import request_lines, target_lines
from sm.cli.tui import texts
from sm.cli.tui.peek import follow_screen
from sm.core.dataclass import dataclass
from sm.feed import FeedSource

_REST_S = 0.3
"""The selection rests for this time before its terminal is captured."""

Run = tuple[str, bool]
"""The ID of a session, and whether it has a process. A restored session has another terminal."""


@dataclass(frozen=True, slots=True)
class BelowPlace:
    """The state of the view around the lines."""

    has_detail: bool
    """The request is in sight elsewhere."""
    in_sight: bool
    """No page is over the list."""
    is_lost: bool
    """The daemon is away."""


class BelowList(Static):
    """Captures a terminal only while it shows one."""

    def __init__(self, source: FeedSource) -> None:
        super().__init__(id="below")
        self._source = source
        self._followed: Run | None = None
        self._end: Callable[[], object] = lambda: None
        self._screen_lines: Sequence[Text | str] | None = None
        self._is_lost = False
        self._title = ""
        self._shown: Text | None = None

    def show(self, target: Target, now_s: float, keys: str, place: BelowPlace) -> None:
        """Show the target. `keys`: those that answer its request."""
        row, self._is_lost = target.row, place.is_lost
        if not self.display:
            self._follow(None)
        elif target.request is not None and not place.has_detail:
            self._follow(None)
            lines = target_lines(target, now_s, self.size.width, keys=keys)
            asked = len(request_lines(target.request, now_s, self.size.width))
            shown = texts.lines_in(lines, asked, self.size.height - 1)
            self._write(f"Request {target.need.key}" if target.need else "", texts.detail_text(shown))
        elif row is None:
            self._follow(None)
            self._write("", Text())
        else:
            self._title = f"Terminal of {row.label}"
            self._follow((row.id, row.has_process) if place.in_sight and not place.is_lost else None)
            self._draw_screen()

    def shows_whole(self, request: Mapping[str, Any], now_s: float) -> bool:
        """Return whether there is room for every line of the request."""
        return self.display and len(request_lines(request, now_s, self.size.width)) < self.size.height

    def _follow(self, run: Run | None) -> None:
        if run == self._followed:
            return
        self._end()
        self._followed, self._screen_lines, self._end = run, None, lambda: None
        if run is not None:
            worker: Worker[None] = self.run_worker(partial(self._read, run))
            self._end = worker.cancel

    async def _read(self, run: Run) -> None:
        await asyncio.sleep(_REST_S)
        await follow_screen(self._source, run[0], partial(self._take, run), seen=False)

    def _take(self, run: Run, lines: Sequence[Text | str]) -> None:
        if run == self._followed and self.is_mounted:
            self._screen_lines = lines
            self._draw_screen()

    def _draw_screen(self) -> None:
        if self._screen_lines is None:
            text = Text("not up to date: no daemon" if self._is_lost else "loading", "dim")
        else:
            last = self._screen_lines[-max(1, self.size.height - 1) :]
            text = Text("\n").join(line if isinstance(line, Text) else Text(line) for line in last)
        self._write(self._title, text)

    def _write(self, title: str, text: Text) -> None:
        shown = texts.titled(title, text, self.size.width)
        if shown != self._shown:
            self._shown = shown
            self.update(shown, layout=False)
