"""Reads the rows that belong to one session, as they are stored, for its archive."""

from typing import Any

from sm.store.connection import Read

_CHARACTERS_MAX = 8_000_000
_PAGE_ROWS = 200
_NO_ROW = 2**63 - 1


def _page(table: str, column: str, number: str) -> str:
    """The query of the newest rows below a number. Each `column` has an index with the number."""
    return f"SELECT * FROM {table} WHERE {column} = ?1 AND {number} < ?2 ORDER BY {number} DESC LIMIT ?3"  # noqa: S608


_RECEIVED, _SENT = _page("messages", "session_id", "id"), _page("messages", "sender", "id")
_QUERIES = {
    "events.jsonl": _page("events", "session_id", "seq"),
    "checkpoints.jsonl": _page("checkpoints", "session_id", "id"),
    "messages.jsonl": f"SELECT * FROM ({_RECEIVED}) UNION SELECT * FROM ({_SENT}) ORDER BY id DESC LIMIT ?3",  # noqa: S608
    "requests.jsonl": _page("requests", "session_id", "id"),
}


class RecordReads:
    def __init__(self, read: Read) -> None:
        self._read = read

    async def rows_of(self, session_id: str) -> dict[str, list[dict[str, Any]]]:
        """The newest rows of each kind, oldest first, by the name of their file in the archive.

        Agents decide how many rows there are and how long they are, so the values of each kind have at most 8,000,000
        characters.
        """
        return {name: await self._newest(query, session_id) for name, query in _QUERIES.items()}

    async def _newest(self, query: str, session_id: str) -> list[dict[str, Any]]:
        found = list[dict[str, Any]]()
        left, before = _CHARACTERS_MAX, _NO_ROW
        while True:
            page = await self._read(query, (session_id, before, _PAGE_ROWS))
            for row in map(dict, page):
                left -= sum(len(str(value)) for value in row.values())
                if left < 0:
                    return found[::-1]
                found.append(row)
            if len(page) < _PAGE_ROWS:
                return found[::-1]
            before = page[-1][0]
