"""The state of one tab: its view, and the frames that it has not been sent yet.

A frame is made of the newest state when the socket can take it. Nothing is queued: a slow reader skips states.
"""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from sm.board import Board, BoardRow, ButtonGuard, RowChange
from sm.board.columns import filled_columns
from sm.board.details import count_line, earlier_words
from sm.client.http import DaemonAway
from sm.errors import SmError
from sm.web.client_frames import ViewFrame
from sm.web.frames import Fields, detail_fields, layout, row_fields
from sm.web.hub import Hub
from sm.web.logins import WebLogin

_ROWS_IN_FRAME = 200
_DETAIL_EVERY_S = 1.0
_UNLISTED_EVERY_S = 5.0
"""How often a selected session that is not in the list is read: no news tell of it."""
_HIDDEN_EVERY_S = 10.0
"""How often a tab that nobody sees gets all news. What needs the person is sent at once."""


class Tab:
    def __init__(self, hub: Hub, login: WebLogin) -> None:
        self._hub = hub
        self.login = login
        self.rests = True
        self.guard = ButtonGuard()
        """Knows since when the tab has been sent each request."""
        self._view = ViewFrame(t="view")
        self._board: Board | None = None
        """None if the view has changed."""
        self._woken = asyncio.Event()
        self._is_urgent = False
        self._number = 0
        self._is_new = True
        """The next frame is a snapshot."""
        self._is_hidden = False
        self._complete_s = 0.0
        """When all news was sent last."""
        self._dirty: set[str] = set()
        """The rows that may differ from those that were sent."""
        self._rows: dict[str, Fields] = {}
        """The rows that were sent."""
        self._sent: dict[str, Any] = {}
        """All other keys as they were sent."""
        self._selected: str | None = None
        self._unlisted: BoardRow | str | None = None
        """The selected session if it is not in the list, or why it cannot be read. None until it is read."""
        self._is_reading = False
        self._read_next_s = 0.0
        """When to read the selected session if it is not in the list."""
        self._detail: Fields | None = None
        self._detail_s = 0.0
        self._settled = hub.settled[-1][0] if hub.settled else 0

    @property
    def rows(self) -> Mapping[str, BoardRow]:
        """The rows that the view may show."""
        table = self._hub.situation.table
        return table.rows if self.shows_archive else table.unarchived

    @property
    def shows_archive(self) -> bool:
        return self._view.archived

    # News

    def take(self, change: RowChange) -> None:
        """Note rows that have changed."""
        self._dirty |= change.ids
        if self._board is not None:
            self._board.take(change)

    def wake(self, *, urgent: bool = False) -> None:
        """Make a frame soon; `urgent`: at once, because the person waits for it."""
        self._is_urgent = self._is_urgent or urgent
        self._woken.set()

    def show(self, view: ViewFrame) -> None:
        is_other = view.archived != self._view.archived
        self._view, self._board = view, None
        if is_other:
            self.begin_again()
        self._hub.follow_archive()
        self.wake(urgent=True)

    def begin_again(self) -> None:
        """Send a snapshot."""
        self._is_new, self._rows, self._sent, self._board = True, {}, {}, None

    def rest(self, *, rests: bool) -> None:
        self.rests = rests
        self.wake(urgent=True)

    def look(self, *, hidden: bool) -> None:
        """Note whether the tab is hidden from the person, behind another one or in a locked phone."""
        self._is_hidden = hidden
        self.wake(urgent=True)

    def select(self, session_id: str | None) -> None:
        self._selected, self._unlisted, self._detail, self._detail_s = session_id, None, None, 0.0
        self.read_again()

    def read_again(self) -> None:
        """Read the selected session soon if it is not in the list. Call it after an action."""
        self._read_next_s = 0.0
        self.wake(urgent=True)

    def lacks_selected(self, clock_s: float) -> bool:
        """True if `read_selected` has to be called."""
        if self._selected is None or self._selected in self.rows or self._is_reading:
            return False
        return clock_s >= self._read_next_s and self._hub.situation.table.revision is not None

    async def read_selected(self, clock_s: float) -> None:
        """Read the selected session, which is not in the list. While the daemon is away it stays as it was."""
        self._is_reading, wanted = True, self._selected or ""
        self._read_next_s = clock_s + _UNLISTED_EVERY_S  # an action during the read makes it earlier again
        found: BoardRow | str
        try:
            found = await self._hub.read_row(wanted)
        except DaemonAway:
            self._read_next_s = 0.0
            return
        except SmError as error:
            found = error.message
        finally:
            self._is_reading = False
        if wanted == self._selected:
            self._unlisted, self._detail_s = found, 0.0
        self.wake(urgent=True)

    async def wait(self) -> bool:
        """Wait for news; return whether a person waits for the frame."""
        timed = self._selected is not None
        timed = timed or (self._board is not None and self._board.filter.depends_on_time)
        try:
            within_s = _HIDDEN_EVERY_S if self._is_hidden else _DETAIL_EVERY_S if timed else None
            async with asyncio.timeout(within_s):
                await self._woken.wait()
        except TimeoutError:
            pass
        self._woken.clear()
        urgent, self._is_urgent = self._is_urgent, False
        return urgent

    # Frames

    def frames(self, clock_s: float) -> Iterator[bytes]:
        """The frames that lead from the sent state to the present one; none if nothing has changed."""
        if self._is_hidden and not self._is_new and clock_s - self._complete_s < _HIDDEN_EVERY_S:
            if keys := self._changed(self._alarm_keys(clock_s)):
                yield self._frame(clock_s, {}, **keys)
                self.guard.see(self._hub.situation.found, clock_s)
            return
        self._complete_s = clock_s
        yield from self._board_frames(clock_s)
        if (detail := self._changed_detail(clock_s)) is not None:
            yield orjson.dumps({"t": "detail", "session": self._selected, **detail})

    def newly_settled(self) -> list[str]:
        """The requests that were open, and that nobody needs to answer any more, since the last call."""
        keys = [key for number, key in self._hub.settled if number > self._settled]
        if self._hub.settled:
            self._settled = self._hub.settled[-1][0]
        return keys

    def _board_frames(self, clock_s: float) -> Iterator[bytes]:
        is_new = self._is_new
        keys = self._changed_keys(clock_s)
        rows, gone = self._changed_rows()
        if not (keys or rows or gone or is_new):
            return
        last = keys if not gone else {**keys, "gone": gone}
        parts = [rows[place : place + _ROWS_IN_FRAME] for place in range(0, len(rows), _ROWS_IN_FRAME)]
        for number, part in enumerate(parts or [[]]):
            is_last = number >= len(parts) - 1
            first = {"snapshot": True} if is_new and number == 0 else {}
            yield self._frame(clock_s, dict(part), **first, **(last if is_last else {"more": True}))
        self.guard.see(self._hub.situation.found, clock_s)

    def _frame(self, clock_s: float, rows: Fields, **more: Any) -> bytes:
        table = self._hub.situation.table
        at_s = table.daemon_s + max(0.0, clock_s - table.received_s)
        self._number += 1
        return orjson.dumps({"t": "board", "rev": self._number, "at": round(at_s, 3), "rows": rows, **more})

    def _changed_rows(self) -> tuple[list[tuple[str, Fields]], list[str]]:
        """The fields that differ from those sent, of each row with one, and the ids of rows that are gone."""
        present = self.rows
        dirty, self._dirty = set(present) if self._is_new else self._dirty, set()
        self._is_new = False
        rows, gone = list[tuple[str, Fields]](), list[str]()
        for session_id in dirty:
            if session_id not in present:
                if self._rows.pop(session_id, None) is not None:
                    gone.append(session_id)
                continue
            fields, sent = self._hub.rows.get(session_id), self._rows.get(session_id)
            if fields is None or fields is sent:  # it cannot be shown, or shows nothing new
                continue
            self._rows[session_id] = fields
            if sent is not None:
                fields = {name: value for name, value in fields.items() if sent[name] != value}
            rows.append((session_id, fields))
        return rows, gone

    def _changed_keys(self, clock_s: float) -> dict[str, Any]:
        board = self._refreshed(clock_s)
        return self._changed(
            {
                **self._alarm_keys(clock_s),
                "chips": self._hub.chips,
                "offers": self._hub.offers,
                "summary": count_line(self.rows.values()),
                "workspace": board.workspace or "",
                "layout": layout(board.lines),
                "columns": sorted(filled_columns(line.row for line in board.lines)),
                "filter_problems": list(board.filter.problems),
                "earlier": earlier_words(board),
                "waiting": board.waiting,
            }
        )

    def _alarm_keys(self, clock_s: float) -> dict[str, Any]:
        """News that needs the person, and the state of the connection to the daemon."""
        situation, table = self._hub.situation, self._hub.situation.table
        is_lost = table.lost_for_s(clock_s) is not None
        return {
            "needs": self._hub.needs,
            "quiet_since": situation.quiet.since_s,
            "lost_since": table.now_s(clock_s) if is_lost else None,
            "lost_reason": situation.outage if is_lost else None,
            "unshown": situation.unshown,
            "title_count": sum(need.is_urgent for need in situation.found),
            "loading": situation.mail is None
            or table.revision is None
            or (self.shows_archive and not self._hub.has_archive),
        }

    def _changed(self, now: dict[str, Any]) -> dict[str, Any]:
        """The keys that differ from the sent ones. From now on they count as sent."""
        sent = self._sent
        changed = {key: value for key, value in now.items() if key not in sent or sent[key] != value}
        self._sent = {**sent, **now}
        return changed

    def _refreshed(self, clock_s: float) -> Board:
        """The board, up to date."""
        view = self._view
        workspace = view.workspace if view.workspace in self._hub.workspaces else None
        board = self._board
        if board is None or board.workspace != workspace:
            board = self._board = Board(self._hub.situation.table, archived=self.shows_archive)
            board.show(
                clock_s, workspace=workspace, sort=view.sort, filter_text=view.filter, folded=view.folded
            )
        else:
            board.refresh(clock_s, rests=self.rests)
        return board

    def _changed_detail(self, clock_s: float) -> Fields | None:
        listed = self.rows.get(self._selected or "")
        if listed is not None:
            self._unlisted, self._read_next_s = None, 0.0
        row = listed or self._unlisted
        if row is None or clock_s - self._detail_s < _DETAIL_EVERY_S:
            return None
        self._detail_s = clock_s
        if isinstance(row, str):
            detail: Fields = {"row": None, "problem": row, "main": (), "actions": {}, "predictions": {}}
        else:
            detail = detail_fields(row, self._hub.situation.found, self._hub.situation.table.now_s(clock_s))
            if listed is None:
                detail = {**detail, "row": {**row_fields(row), "id": row.id}}
        if detail == self._detail:
            return None
        self._detail = detail
        return detail
