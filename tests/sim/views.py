"""Live views of a fleet: clients of the events and the rows, which lose connections and go on where they were."""

import asyncio
import sqlite3
from abc import ABC, abstractmethod
from typing import Any

import orjson

from sm.client.http import DaemonAway
from tests.sim.streams import Stream
from tests.sim.wire import target
from tests.sim.world import World

_AWAY_S = 0.5
_WITHIN_S = 60.0
_LOOK_S = 0.25


class _View(ABC):
    """One view, which connects again whenever its connection ends."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stream: Stream | None = None
        self.wrong: list[str] = []

    @abstractmethod
    def target(self) -> str:
        """The next request."""

    @abstractmethod
    def take(self, event: Any) -> None:
        """Show one event."""

    @abstractmethod
    def misses(self, db: sqlite3.Connection) -> str:
        """Name what the view does not show, or return an empty text if it shows all."""

    async def run(self) -> None:
        while True:
            try:
                self._stream = Stream(self._world, self.target())
                async for data in self._stream.data():
                    self.take(orjson.loads(data))
            except DaemonAway:
                self._stream = None
                await asyncio.sleep(_AWAY_S)

    def cut(self) -> None:
        if self._stream is not None:
            self._stream.cut()

    async def stop_reading(self, for_s: float) -> None:
        if (stream := self._stream) is not None:
            stream.stop_reading()
            await asyncio.sleep(for_s)
            stream.go_on()


class EventView(_View):
    """Shows the events after `since`, each once and in order."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._last = world.store.last_seq

    def target(self) -> str:
        return target("/v1/events/stream", {"since": self._last})

    def take(self, event: Any) -> None:
        if event["seq"] != self._last + 1:
            self.wrong.append(f"a view of the events got {event['seq']} after {self._last}")
        self._last = event["seq"]

    def misses(self, db: sqlite3.Connection) -> str:
        last = db.execute("SELECT max(seq) FROM events").fetchone()[0] or 0
        return "" if self._last == last else f"a view of the events is at {self._last} of {last}"


class RowView(_View):
    """Shows the rows of the sessions in memory in their newest states."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._revision: str | None = None
        self._statuses: dict[str, str] = {}

    def target(self) -> str:
        return target("/v1/live", {"since": self._revision})

    def take(self, event: Any) -> None:
        if event["snapshot"]:
            self._statuses.clear()
        self._statuses |= {row["session_id"]: row["status"] for row in event["rows"]}
        for session_id in event["removed"]:
            self._statuses.pop(session_id, None)
        # A part of an update has none: after a cut there, the view begins with what it had before.
        self._revision = event["revision"] or self._revision

    def misses(self, db: sqlite3.Connection) -> str:
        rows = dict(db.execute("SELECT id, status FROM sessions WHERE removed = 0 AND archived = 0"))
        rows = {s: status for s, status in rows.items() if self._world.store.sessions.is_kept(s)}
        wrong = sorted(s for s in {*rows, *self._statuses} if rows.get(s) != self._statuses.get(s))
        return "".join(f"a view shows {s} as {self._statuses.get(s)}, not {rows.get(s)}" for s in wrong[:1])


class Views:
    """The views of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._views: list[_View] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        """Follow what happens from now on."""
        for kind in (EventView, EventView, RowView, RowView):
            view = kind(self._world)
            self._views.append(view)
            self._tasks.append(asyncio.create_task(view.run()))

    def find(self, number: int) -> _View:
        return self._views[number % len(self._views)]

    async def broken(self, db: sqlite3.Connection) -> list[str]:
        """Name what the views show wrongly, or not within a while. They show each event once, without a gap."""
        until_s = self._world.loop.time() + _WITHIN_S
        while missing := [text for view in self._views if (text := view.misses(db))]:
            if self._world.loop.time() > until_s:
                break
            await asyncio.sleep(_LOOK_S)
        return [f"4: {text}" for text in (*(w for view in self._views for w in view.wrong), *missing)]
