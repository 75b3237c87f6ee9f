"""Facts and tool uses of agents, stored with the read positions of transcripts so that nothing counts twice."""

from collections.abc import Iterable, Mapping
from typing import Any

from sm.core.usage import FilePosition, ToolUse
from sm.store.connection import Read
from sm.store.rows import decode_json, encode_json
from sm.store.writes import Writes


class MeasureWrites(Writes):
    def set_position(self, session_id: str, path: str, position: FilePosition) -> None:
        self._tx.write(
            "INSERT OR REPLACE INTO transcripts (session_id, path, inode, offset) VALUES (?, ?, ?, ?)",
            (session_id, path, position.inode, position.offset),
        )

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
        for table in ("transcripts", "tool_uses", "observed"):
            self._tx.write(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))  # noqa: S608 - constant names


class MeasureReads:
    """Reads facts with one indexed query each."""

    def __init__(self, read: Read) -> None:
        self._read = read

    async def positions(self, session_id: str) -> dict[str, FilePosition]:
        rows = await self._read(
            "SELECT path, inode, offset FROM transcripts WHERE session_id = ?", (session_id,)
        )
        return {row[0]: FilePosition(row[1], row[2]) for row in rows}

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
