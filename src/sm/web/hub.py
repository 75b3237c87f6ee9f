"""Follows the daemon once for all tabs of all browsers."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Protocol

from sm.board import NeedKind, RowChange, SessionTable
from sm.client.http import Client
from sm.feed import Feed, FeedNews, Mail, MailFailure, Outage, Situation
from sm.web.frames import Fields, chip_fields, need_fields
from sm.web.offers import board_offers
from sm.web.row_source import RowSource

_SETTLED_MAX = 20


class HubTab(Protocol):
    """A tab that gets the news."""

    @property
    def shows_archive(self) -> bool:
        """True if it needs all sessions, also archived ones."""

    @property
    def source(self) -> RowSource:
        """Its rows: `Hub.live` or `Hub.archive`."""

    def take(self, change: RowChange) -> None:
        """Note a change of `source`."""

    def wake(self) -> None:
        """Make a frame soon."""


class Hub:
    """Open it in the event loop of the server. `close` ends the threads that read from the daemon."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._feed = Feed(client, partial(self._call, self._take_news))
        self._archive_feed: Feed | None = None
        self._ends = set[asyncio.Future[None]]()
        self._tabs: set[HubTab] = set()
        self.situation = Situation(self._feed.ask)
        self.live = RowSource(self.situation.table)
        """Without archived sessions."""
        self.archive = RowSource(SessionTable())
        """All sessions. It is followed only while a tab shows archived ones."""
        self.needs: list[Fields] = []
        self.chips: list[Fields] = []
        self.offers: Mapping[str, Fields] = {}
        """The actions that need no session, by workspace; empty: no workspace is chosen."""
        self.settled: deque[tuple[int, str]] = deque(maxlen=_SETTLED_MAX)
        """The last requests that were open and are not, each with a number that grows."""
        self._settled_count = 0

    def start(self) -> None:
        self._feed.start()

    async def close(self) -> None:
        feeds = [self._feed, *([self._archive_feed] if self._archive_feed is not None else [])]
        await asyncio.gather(*(asyncio.to_thread(feed.end) for feed in feeds), *self._ends)

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
        is_wanted = any(tab.shows_archive for tab in self._tabs)
        if is_wanted and self._archive_feed is None:
            self.archive = RowSource(SessionTable())
            feed = self._archive_feed = Feed(
                self._client,
                lambda: self._call(partial(self._take_archive, feed)),
                archived=True,
                only_rows=True,
            )
            feed.start()
        elif not is_wanted and self._archive_feed is not None:
            ending = self._loop.run_in_executor(None, self._archive_feed.end)
            self._ends.add(ending)
            ending.add_done_callback(self._ends.discard)
            self._archive_feed = None
            self.archive = RowSource(SessionTable())

    def reload(self) -> None:
        """Read requests and messages again now."""
        self._feed.ask()

    @property
    def workspaces(self) -> tuple[str, ...]:
        return tuple(sorted(self.situation.workspaces))

    def _call(self, function: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the server has ended
            self._loop.call_soon_threadsafe(function)

    def _take_news(self) -> None:
        if news := self._feed.take():
            self.take(news, time.monotonic())

    def take(self, news: Iterable[FeedNews], clock_s: float) -> None:
        """Take news of the feed, and pass the changes on to the tabs."""
        before = {need.key for need in self.situation.found if need.kind is NeedKind.REQUEST}
        changes = [change for item in news if (change := self.situation.take(item, clock_s)) is not None]
        self.situation.find_needs(clock_s)
        rows, found = self.situation.table.rows, self.situation.found
        for key in sorted(before - {need.key for need in found}):
            self._settled_count += 1
            self.settled.append((self._settled_count, key))
        self.needs = [need_fields(need, rows.get(need.session_id or "")) for need in found]
        self.chips = chip_fields(rows, found, self.workspaces)
        self.offers = board_offers(rows, self.workspaces)
        self._pass_on(self.live, changes)

    def _take_archive(self, feed: Feed) -> None:
        news, clock_s = feed.take(), time.monotonic()
        if feed is self._archive_feed and news:
            changes = [change for item in news if (change := self._archive_change(item, clock_s)) is not None]
            self._pass_on(self.archive, changes)

    def _archive_change(self, news: FeedNews, clock_s: float) -> RowChange | None:
        if isinstance(news, Outage):
            self.archive.table.lose(clock_s)
        elif not isinstance(news, Mail | MailFailure):
            return self.archive.table.apply(news, clock_s)
        return None

    def _pass_on(self, source: RowSource, changes: Iterable[RowChange]) -> None:
        for change in changes:
            source.update(change)
            for tab in self._tabs:
                if tab.source is source:
                    tab.take(change)
        for tab in self._tabs:
            tab.wake()
