"""Reads the rows that belong to one session, as they are stored, for its archive."""

from typing import Any

from sm.store.connection import Read

_ROWS_MAX = 100_000
_QUERIES = {
    "events.jsonl": "SELECT * FROM events WHERE session_id = ?1 ORDER BY seq DESC LIMIT ?2",
    "checkpoints.jsonl": "SELECT * FROM checkpoints WHERE session_id = ?1 ORDER BY id DESC LIMIT ?2",
    "messages.jsonl": "SELECT * FROM messages WHERE session_id = ?1 OR sender = ?1 ORDER BY id DESC LIMIT ?2",
    "requests.jsonl": "SELECT * FROM requests WHERE session_id = ?1 ORDER BY id DESC LIMIT ?2",
}


class RecordReads:
    def __init__(self, read: Read) -> None:
        self._read = read

    async def rows_of(self, session_id: str) -> dict[str, list[dict[str, Any]]]:
        """The newest rows of each kind, oldest first, by the name of their file in the archive."""
        found = {}
        for name, query in _QUERIES.items():
            rows = await self._read(query, (session_id, _ROWS_MAX))
            found[name] = [dict(row) for row in reversed(rows)]
        return found
