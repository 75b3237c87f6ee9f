"""Reads events."""

from collections.abc import Collection
from functools import partial
from typing import Any

import aiosqlite

from sm.core.models import Event
from sm.core.states import EventType
from sm.core.timeline import STATUS_EVENTS, StatusEvent
from sm.core.timestamps import later
from sm.store.connection import rows
from sm.store.rows import EVENTS, encode_json

_RECORDED_WITHIN_S = 60.0


class EventReads:
    def __init__(self, reader: aiosqlite.Connection) -> None:
        self.read = partial(rows, reader)

    async def events(
        self,
        *,
        sessions: Collection[str] | None,
        type: str | None = None,
        since: int | None = None,
        since_time: str | None = None,
        limit: int = 50,
    ) -> list[Event]:
        """Read events in order: the newest `limit`, or the first `limit` after a seq or at or after a time.

        Events are recorded up to a minute after their time.
        """
        where, values = ["1"], list[Any]()
        if sessions is not None:
            where.append("session_id IN (SELECT value FROM json_each(?))")
            values.append(encode_json(list(sessions)))
        if type is not None:
            where.append("type = ?")
            values.append(type)
        if since is not None:
            where.append("seq > ?")
            values.append(since)
        if since_time is not None:
            where.append("seq >= ? AND timestamp >= ?")
            values += [await self._seq_at(later(since_time, -_RECORDED_WITHIN_S)), since_time]
        newest = since is None and since_time is None
        order = "DESC" if newest else "ASC"
        rows = await self.read(
            f"{EVENTS.select} WHERE {' AND '.join(where)} ORDER BY seq {order} LIMIT ?", (*values, limit)
        )
        return [EVENTS.load(row) for row in (reversed(rows) if newest else rows)]

    async def status_events(
        self, session_ids: Collection[str], since: str, until: str, limit: int
    ) -> tuple[list[StatusEvent], bool]:
        """The events of moves in that time, with the last one of each session before, and True if `limit` cut them.

        In order, the newest `limit` ones. Events are recorded up to a minute after their time.
        """
        ids, types = encode_json(list(session_ids)), encode_json(list(STATUS_EVENTS))
        first = await self._seq_at(later(since, -_RECORDED_WITHIN_S))
        what = "e.session_id, e.type, e.timestamp, json_extract(e.metadata, '$.source') AS source,"
        what += " json_extract(e.metadata, '$.reason') AS reason"
        chosen = "type IN (SELECT value FROM json_each(?))"
        newest = await self.read(
            f"SELECT e.seq, {what} FROM events AS e WHERE seq >= ? AND {chosen}"  # noqa: S608 - constant texts
            " AND session_id IN (SELECT value FROM json_each(?)) AND timestamp <= ? ORDER BY seq DESC LIMIT ?",
            (first, types, ids, until, limit + 1),
        )
        kept = newest[:limit]
        if len(newest) > limit:
            first = newest[limit]["seq"] + 1
        before = await self.read(
            f"SELECT {what} FROM json_each(?) AS s JOIN events AS e ON e.seq = (SELECT seq FROM events"  # noqa: S608
            f" WHERE session_id = s.value AND seq < ? AND {chosen} ORDER BY seq DESC LIMIT 1)",
            (ids, first, types),
        )
        rows = [*before, *reversed(kept)]
        events = [
            StatusEvent(r["session_id"], EventType(r["type"]), r["timestamp"], r["source"], r["reason"])
            for r in rows
        ]
        return events, len(newest) > limit

    async def _seq_at(self, at: str) -> int:
        """The seq of the first event at or after that time, found by bisection: events are almost in order of time."""
        last = (await self.read("SELECT max(seq) FROM events"))[0][0]
        low, high = 1, (last or 0) + 1
        while low < high:
            middle = (low + high) // 2
            rows = await self.read(
                "SELECT seq, timestamp FROM events WHERE seq >= ? ORDER BY seq LIMIT 1", (middle,)
            )
            if rows and rows[0]["timestamp"] < at:
                low = rows[0]["seq"] + 1
            else:
                high = middle
        return low
