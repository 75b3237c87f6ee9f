"""Follows the daemon once for all tabs of all browsers."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress

from sm.board import RowChange
from sm.client.feed import Feed
from sm.client.http import Client
from sm.client.situation import Situation
from sm.web.frames import Fields, chip_fields, need_fields, row_fields
from sm.web.tab import Tab


class Hub:
    """Open it in the event loop of the server. `close` ends the threads that read from the daemon."""

    def __init__(self, client: Client) -> None:
        self._loop = asyncio.get_running_loop()
        self._feed = Feed(client, self._call)
        self._tabs: set[Tab] = set()
        self.situation = Situation(self._feed.ask)
        self.rows: dict[str, Fields] = {}
        """The fields of each row. Equal fields are the same object."""
        self.needs: list[Fields] = []
        self.chips: list[Fields] = []

    def start(self) -> None:
        self._feed.start()

    def close(self) -> None:
        self._feed.end()

    def add(self, tab: Tab) -> None:
        self._tabs.add(tab)

    def remove(self, tab: Tab) -> None:
        self._tabs.discard(tab)

    @property
    def tabs(self) -> frozenset[Tab]:
        return frozenset(self._tabs)

    def reload(self) -> None:
        """Read requests and messages again now."""
        self._feed.ask()

    @property
    def workspaces(self) -> tuple[str, ...]:
        mail = self.situation.mail
        return () if mail is None else tuple(sorted(mail.workspaces))

    def _call(self) -> None:
        with suppress(RuntimeError):  # the server has ended
            self._loop.call_soon_threadsafe(self._take_news)

    def _take_news(self) -> None:
        clock_s = time.monotonic()
        news = self._feed.take()
        if not news:
            return
        changes = [change for item in news if (change := self.situation.take(item, clock_s)) is not None]
        for change in changes:
            self._update_rows(change)
        self.situation.find_needs(clock_s)
        rows, found = self.situation.table.rows, self.situation.found
        self.needs = [need_fields(need, rows.get(need.session_id or "")) for need in found]
        self.chips = chip_fields(rows, found, self.workspaces)
        for tab in self._tabs:
            for change in changes:
                tab.take(change)
            tab.wake()

    def _update_rows(self, change: RowChange) -> None:
        rows: Mapping[str, object] = self.situation.table.rows
        for session_id in change.ids:
            if session_id not in rows:
                self.rows.pop(session_id, None)
                continue
            fields = row_fields(self.situation.table.rows[session_id])
            if self.rows.get(session_id) != fields:
                self.rows[session_id] = fields
