"""The state of one tab: its view, and the board frames that it has not been sent yet.

A frame is made of the newest state when the socket can take it. Nothing is queued: a slow reader skips states.
"""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import orjson

from sm.board import Board, ButtonGuard, RowChange
from sm.web import frames
from sm.web.client_frames import ViewFrame
from sm.web.logins import Login

if TYPE_CHECKING:
    from sm.web.hub import Hub

_ROWS_IN_FRAME = 200
_LAYOUT_LINES_IN_FRAME = 5000


class Tab:
    def __init__(self, hub: "Hub", login: Login) -> None:
        self._hub = hub
        self.login = login
        self.rests = True
        self.guard = ButtonGuard()
        """Knows since when the tab has been sent each request."""
        self.selected: str | None = None
        self._view = ViewFrame(t="view")
        self._boards: dict[str, Board] = {}
        """By workspace; empty: all sessions."""
        self._woken = asyncio.Event()
        self._is_urgent = False
        self._number = 0
        self._dirty: set[str] = set()
        """The rows that may differ from those that were sent."""
        self._rows: dict[str, frames.Fields] = {}
        """The rows as they were sent."""
        self._sent: dict[str, Any] = {}
        """All other keys as they were sent."""
        self._layouts: dict[str, list[list[Any]]] = {}

    # News

    def take(self, change: RowChange) -> None:
        self._dirty |= change.ids
        for board in self._boards.values():
            board.take(change)

    def wake(self, *, urgent: bool = False) -> None:
        """Make a frame soon; `urgent`: at once, because the person waits for it."""
        self._is_urgent = self._is_urgent or urgent
        self._woken.set()

    def show(self, view: ViewFrame) -> None:
        self._view = view
        self._boards = {}
        self.wake(urgent=True)

    def rest(self, *, rests: bool) -> None:
        self.rests = rests
        self.wake(urgent=True)

    async def wait(self) -> bool:
        """Wait for news; return whether a person waits for the frame."""
        timed = any(board.filter.depends_on_time for board in self._boards.values())
        try:
            async with asyncio.timeout(1.0 if timed else None):
                await self._woken.wait()
        except TimeoutError:
            return False
        return self._is_urgent

    # Frames

    def board_frames(self, clock_s: float) -> Iterator[bytes]:
        """The frames that lead from the sent state to the present one; none if nothing has changed."""
        self._woken.clear()
        self._is_urgent = False
        hub, is_first = self._hub, self._number == 0
        situation = hub.situation
        table = situation.table
        keys = self._changed_keys(clock_s)
        rows, gone = self._changed_rows()
        if not (keys or rows or gone or is_first):
            return
        parts = [rows[place : place + _ROWS_IN_FRAME] for place in range(0, len(rows), _ROWS_IN_FRAME)] or [
            []
        ]
        for number, part in enumerate(parts):
            is_last = number == len(parts) - 1
            self._number += 1
            frame: dict[str, Any] = {
                "t": "board",
                "rev": self._number,
                "at": table.daemon_s + max(0.0, clock_s - table.received_s),
                "snapshot": is_first and number == 0,
                "more": not is_last,
                "rows": dict(part),
            }
            if is_last:
                frame |= {"gone": gone, **keys}
            yield orjson.dumps(frame)
        self.guard.see(situation.found, clock_s)

    def _changed_rows(self) -> tuple[list[tuple[str, frames.Fields]], list[str]]:
        """The fields of rows that differ from those sent, and the ids of rows that are gone."""
        hub = self._hub
        if self._number == 0:
            self._dirty = set(hub.rows)
        dirty, self._dirty = self._dirty, set()
        rows, gone = list[tuple[str, frames.Fields]](), list[str]()
        for session_id in dirty:
            fields, sent = hub.rows.get(session_id), self._rows.get(session_id)
            if fields is None:
                if self._rows.pop(session_id, None) is not None:
                    gone.append(session_id)
            elif fields is not sent:
                self._rows[session_id] = fields
                known = sent or {}
                rows.append(
                    (session_id, {k: v for k, v in fields.items() if k not in known or known[k] != v})
                )
        return rows, gone

    def _changed_keys(self, clock_s: float) -> dict[str, Any]:
        hub, situation = self._hub, self._hub.situation
        table = situation.table
        live = sum(row.is_live for row in table.rows.values())
        lost_s = table.lost_for_s(clock_s)
        now = {
            "needs": hub.needs,
            "chips": hub.chips,
            "summary": f"{live} live, {len(table.rows) - live} ended",
            "quiet_since": situation.quiet.since_s,
            "lost_since": None if lost_s is None else table.now_s(clock_s),
            "lost_reason": None if lost_s is None else situation.outage,
            "title_count": len(hub.needs),
            "loading": situation.mail is None or table.revision is None,
        }
        now |= self._view_keys(clock_s)
        changed = {
            key: value for key, value in now.items() if key not in self._sent or self._sent[key] != value
        }
        self._sent = now
        layouts = self._changed_layouts(clock_s)
        return changed if not layouts else {**changed, "layouts": layouts}

    def _view_keys(self, clock_s: float) -> dict[str, Any]:
        boards = self._refreshed(clock_s)
        every = boards[""]
        return {
            "filter_problems": list(every.filter.problems),
            "waiting": {slug: board.waiting for slug, board in boards.items() if board.waiting},
        }

    def _refreshed(self, clock_s: float) -> dict[str, Board]:
        """The boards of all workspaces, up to date."""
        slugs = ("", *self._hub.workspaces)
        for slug in self._boards.keys() - set(slugs):
            del self._boards[slug]
        for slug in slugs:
            if slug not in self._boards:
                self._boards[slug] = self._new_board(slug, clock_s)
            else:
                self._boards[slug].refresh(clock_s, rests=self.rests)
        return self._boards

    def _new_board(self, slug: str, clock_s: float) -> Board:
        board = Board(self._hub.situation.table)
        board.show(
            clock_s,
            workspace=slug or None,
            sort=self._view.sort,
            filter_text=self._view.filter,
            folded=self._view.folded,
        )
        return board

    def _changed_layouts(self, clock_s: float) -> dict[str, Any]:
        new = {slug: frames.layout(board.lines) for slug, board in self._boards.items()}
        changed: dict[str, Any] = {
            slug: lines for slug, lines in new.items() if self._layouts.get(slug) != lines
        }
        changed |= dict.fromkeys(self._layouts.keys() - new.keys())
        self._layouts = new
        return changed
