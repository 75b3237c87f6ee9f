"""Token and tool usage of agents, stored with the read positions of transcripts so that nothing counts twice."""

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import astuple, fields
from typing import Any

from sm.core.usage import UNREAD, FilePosition, ToolUse, Usage
from sm.store.connection import Read
from sm.store.rows import decode_json, encode_json
from sm.store.writes import Writes

_COMPLETED_LOOKED_AT = 50
"""Bounds the cost of a query that `sm progress --watch` repeats every second."""
_COMPLETED_MIN = 3
"""One or two sessions say little about the next one."""
_ANY_UNREAD = f"%{UNREAD}"
"""Matches the models of usage that could not be read. The tokens of such a session are too low."""
_COUNTED = tuple(f.name for f in fields(Usage) if f.name not in ("message_id", "sidechain"))
_ADD_USAGE = (
    f"INSERT INTO usage (session_id, {', '.join(f.name for f in fields(Usage))})"  # noqa: S608 - constant names
    f" VALUES ({', '.join('?' * (1 + len(fields(Usage))))}) ON CONFLICT (session_id, message_id)"
    f" DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _COUNTED)}"
    f" WHERE excluded.model NOT LIKE '%{UNREAD}' AND (model LIKE '%{UNREAD}' OR excluded.output >= output)"
)
"""The condition is that of `Usage.replaces`."""


class MeasureWrites(Writes):
    def set_position(self, session_id: str, path: str, position: FilePosition) -> None:
        self._tx.write(
            "INSERT OR REPLACE INTO transcripts (session_id, path, inode, offset) VALUES (?, ?, ?, ?)",
            (session_id, path, position.inode, position.offset),
        )

    def add_usage(self, session_id: str, usages: Iterable[Usage]) -> None:
        """Count each message once. Transcripts repeat a message while it grows: the last one is complete."""
        self._tx.write_rows(_ADD_USAGE, ((session_id, *astuple(usage)) for usage in usages))

    def tools(self, session_id: str, tools: Iterable[ToolUse]) -> None:
        self._tx.write_rows(
            "INSERT OR IGNORE INTO tool_uses (session_id, tool_use_id, name, at, sidechain) VALUES (?, ?, ?, ?, ?)",
            ((session_id, tool.id, tool.name, tool.at, tool.sidechain) for tool in tools),
        )

    def facts(self, session_id: str, facts: Mapping[str, Any]) -> None:
        self._tx.write(
            "INSERT OR REPLACE INTO observed (session_id, facts) VALUES (?, ?)",
            (session_id, encode_json(dict(facts))),
        )

    def forget(self, session_id: str) -> None:
        for table in ("transcripts", "usage", "tool_uses", "observed"):
            self._tx.write(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))  # noqa: S608 - constant names


class MeasureReads:
    """Reads usage with one indexed query each."""

    def __init__(self, read: Read) -> None:
        self._read = read

    async def positions(self, session_id: str) -> dict[str, FilePosition]:
        rows = await self._read(
            "SELECT path, inode, offset FROM transcripts WHERE session_id = ?", (session_id,)
        )
        return {row[0]: FilePosition(row[1], row[2]) for row in rows}

    async def usage(self, session_id: str) -> list[Usage]:
        """Sums by model, with sub-agents separate; `message_id` and `at` are empty."""
        rows = await self._read(
            "SELECT model, sidechain, sum(input), sum(output), sum(cache_read), sum(cache_write), sum(cache_write_1h)"
            " FROM usage WHERE session_id = ? GROUP BY model, sidechain ORDER BY model, sidechain",
            (session_id,),
        )
        return [
            Usage("", row[0], "", row[2], row[3], row[4], row[5], row[6], sidechain=bool(row[1]))
            for row in rows
        ]

    async def usage_of(self, session_ids: Iterable[str]) -> dict[str, list[Usage]]:
        """Sums by model, as `usage`, for several sessions in one query. Omits sessions without usage."""
        rows = await self._read(
            "SELECT session_id, model, sidechain, sum(input), sum(output), sum(cache_read), sum(cache_write),"
            " sum(cache_write_1h) FROM usage WHERE session_id IN (SELECT value FROM json_each(?))"
            " GROUP BY session_id, model, sidechain",
            (encode_json(list(session_ids)),),
        )
        return _by_session(rows)

    async def usage_since(self, at: str) -> dict[str, list[Usage]]:
        """Sums by model, as `usage_of`, of the messages of all sessions since that time."""
        rows = await self._read(
            "SELECT session_id, model, sidechain, sum(input), sum(output), sum(cache_read), sum(cache_write),"
            " sum(cache_write_1h) FROM usage WHERE at >= ? GROUP BY session_id, model, sidechain",
            (at,),
        )
        return _by_session(rows)

    async def usage_of_messages(self, session_id: str, message_ids: Iterable[str]) -> dict[str, Usage]:
        """The stored usage of these messages, by id. Omits messages without usage."""
        rows = await self._read(
            f"SELECT {', '.join(f.name for f in fields(Usage))} FROM usage WHERE session_id = ?"  # noqa: S608
            " AND message_id IN (SELECT value FROM json_each(?))",
            (session_id, encode_json(list(message_ids))),
        )
        return {
            row["message_id"]: Usage(**{**dict(row), "sidechain": bool(row["sidechain"])}) for row in rows
        }

    async def usage_by_time(
        self, session_ids: Iterable[str], digits: int, since: str, until: str
    ) -> list[Usage]:
        """Sums by time and model of several sessions; `at` is the first `digits` characters of the times.

        `since` and `until` are inclusive. Omits usage without a time.
        """
        rows = await self._read(
            "SELECT substr(at, 1, ?) AS bucket, model, sum(input), sum(output), sum(cache_read), sum(cache_write),"
            " sum(cache_write_1h) FROM usage WHERE session_id IN (SELECT value FROM json_each(?))"
            " AND at >= ? AND at <= ? AND at <> '' GROUP BY bucket, model",
            (digits, encode_json(list(session_ids)), since, until),
        )
        return [Usage("", row[1], row[0], row[2], row[3], row[4], row[5], row[6]) for row in rows]

    async def facts_of(self, session_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """The facts of several sessions in one query. Omits sessions without facts."""
        rows = await self._read(
            "SELECT session_id, facts FROM observed WHERE session_id IN (SELECT value FROM json_each(?))",
            (encode_json(list(session_ids)),),
        )
        return {session_id: decode_json(facts) for session_id, facts in rows}

    async def tools(self, session_id: str) -> dict[str, int]:
        """Number of uses of each tool, including sub-agents; the most used first."""
        rows = await self._read(
            "SELECT name, count(*) FROM tool_uses WHERE session_id = ? GROUP BY name ORDER BY count(*) DESC, name",
            (session_id,),
        )
        return dict(rows)

    async def facts(self, session_id: str) -> dict[str, Any]:
        rows = await self._read("SELECT facts FROM observed WHERE session_id = ?", (session_id,))
        return decode_json(rows[0][0]) if rows else {}

    async def tokens_since(self, session_id: str, since: str, until: str) -> list[tuple[str, int]]:
        """(time, input and output) of the messages of a session after `since`, until `until`."""
        rows = await self._read(
            "SELECT at, input + output FROM usage WHERE session_id = ? AND at > ? AND at <= ?",
            (session_id, since, until),
        )
        return [(row[0], row[1]) for row in rows]

    async def token_rates(self, agent_type: str) -> list[float]:
        """Input and output tokens for each minute of work of the newest completed sessions of this type."""
        rows = await self._read(
            "SELECT sum(u.input + u.output) * 60.0 / s.worked_s FROM usage u JOIN (SELECT id, worked_s FROM sessions"
            " WHERE agent_type = ? AND status = 'completed' AND removed = 0 AND worked_s > 0"
            " ORDER BY completed_at DESC LIMIT ?) s ON s.id = u.session_id GROUP BY u.session_id"
            " HAVING NOT max(u.model LIKE ?)",
            (agent_type, _COMPLETED_LOOKED_AT, _ANY_UNREAD),
        )
        return [float(row[0]) for row in rows]

    async def usual_tokens(self, agent_type: str) -> int | None:
        """Median of input and output tokens of the newest completed sessions of this type; None below three."""
        rows = await self._read(
            "SELECT sum(u.input + u.output) FROM usage u JOIN (SELECT id FROM sessions WHERE agent_type = ?"
            " AND status = 'completed' AND removed = 0 ORDER BY completed_at DESC LIMIT ?) s"
            " ON s.id = u.session_id GROUP BY u.session_id HAVING NOT max(u.model LIKE ?) ORDER BY 1",
            (agent_type, _COMPLETED_LOOKED_AT, _ANY_UNREAD),
        )
        totals = [row[0] for row in rows]
        return int(totals[len(totals) // 2]) if len(totals) >= _COMPLETED_MIN else None


def _by_session(rows: Iterable[sqlite3.Row]) -> dict[str, list[Usage]]:
    found: dict[str, list[Usage]] = {}
    for row in rows:
        usage = Usage("", row[1], "", row[3], row[4], row[5], row[6], row[7], sidechain=bool(row[2]))
        found.setdefault(row[0], []).append(usage)
    return found
