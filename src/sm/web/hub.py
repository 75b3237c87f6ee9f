"""Follows the daemon once for all tabs of all browsers."""

import time
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Protocol

from sm.board import BoardRow, NeedKind, RowChange, board_row
from sm.feed import Feed, FeedNews, FeedSource, Situation, Unshown, read_row
from sm.web.frames import Fields, chip_fields, needs_fields, row_fields
from sm.web.offers import board_offers

_SETTLED_MAX = 20


class HubTab(Protocol):
    """A tab that gets the news."""

    @property
    def shows_archive(self) -> bool:
        """True if it shows archived sessions too."""

    def take(self, change: RowChange) -> None:
        """Note rows that have changed."""

    def begin_again(self) -> None:
        """Show all rows anew."""

    def wake(self) -> None:
        """Make a frame soon."""


class Hub:
    def __init__(self, source: FeedSource) -> None:
        self._get = source.get
        self._feed = Feed(source, self._take_one)
        self._tabs: set[HubTab] = set()
        self.situation = Situation(self._feed.ask)
        self.rows: dict[str, Fields] = {}
        """The fields of each row, as a page gets them. Equal fields are the same object.

        Archived sessions are followed only while a tab shows them.
        """
        self.has_archive = False
        """The rows include those of archived sessions."""
        self.needs: list[Fields] = []
        self.chips: list[Fields] = []
        self.offers: Mapping[str, Fields] = {}
        """The actions that need no session, by workspace, or empty if no workspace is chosen."""
        self.settled: deque[tuple[int, str]] = deque(maxlen=_SETTLED_MAX)
        """The last requests that were open and are not, each with a number that grows."""
        self._settled_count = 0

    async def run(self) -> None:
        """Follow until cancelled."""
        await self._feed.run()

    @property
    def tabs(self) -> frozenset[HubTab]:
        return frozenset(self._tabs)

    def add(self, tab: HubTab) -> None:
        self._tabs.add(tab)

    def remove(self, tab: HubTab) -> None:
        self._tabs.discard(tab)
        self.follow_archive()

    def follow_archive(self) -> None:
        """Follow archived sessions if a tab shows them, and only then."""
        self.has_archive = self.has_archive and self._wants_archive
        self._feed.show_archived(self._wants_archive)

    @property
    def _wants_archive(self) -> bool:
        return any(tab.shows_archive for tab in self._tabs)

    def reload(self) -> None:
        """Read requests and messages again now."""
        self._feed.ask()

    async def read_row(self, session_id: str) -> BoardRow:
        """Read a session that is not in the list. Raises SmError."""
        return board_row(await read_row(self._get, session_id))

    @property
    def workspaces(self) -> tuple[str, ...]:
        return tuple(sorted(self.situation.workspaces))

    def _take_one(self, news: FeedNews) -> None:
        if isinstance(news, Unshown):
            self.situation.take(news, time.monotonic())
            for tab in self._tabs:
                tab.wake()
        else:
            self.take([news], time.monotonic())

    def take(self, news: Iterable[FeedNews], clock_s: float) -> None:
        """Take news of the feed, and pass the changes on to the tabs."""
        before = {need.key for need in self.situation.found if need.kind is NeedKind.REQUEST}
        changes = [change for item in news if (change := self.situation.take(item, clock_s)) is not None]
        for change in changes:
            self._draw(change.ids)
            is_first = change.snapshot and not self.has_archive
            self.has_archive = self.has_archive or (change.snapshot and self._wants_archive)
            for tab in self._tabs:
                tab.take(change)
                if is_first and tab.shows_archive:
                    tab.begin_again()
        self.situation.find_needs(clock_s)
        rows, found = self.situation.table.unarchived, self.situation.found
        for key in sorted(before - {need.key for need in found}):
            self._settled_count += 1
            self.settled.append((self._settled_count, key))
        self.needs = needs_fields(found, rows)
        self.chips = chip_fields(rows, found, self.workspaces)
        self.offers = board_offers(rows, self.workspaces)
        for tab in self._tabs:
            tab.wake()

    def _draw(self, session_ids: Iterable[str]) -> None:
        """Bring the fields of these rows up to date."""
        for session_id in session_ids:
            row = self.situation.table.rows.get(session_id)
            if row is None:
                self.rows.pop(session_id, None)
            elif self.rows.get(session_id) != (fields := row_fields(row)):
                self.rows[session_id] = fields
