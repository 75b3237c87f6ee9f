"""Full-text search in the texts of sessions: SQLite's FTS5 over the table `search_texts`.

Temporary triggers add the texts of `_SOURCES` in the transaction that writes them, and `SearchWrites` those of
transcripts and terminals. The kernel's migrations made the table and the index. Their triggers delete the texts of a
removed session, also in a daemon without search.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sm.capabilities.search.query_words import searched_words
from sm.core.dataclass import dataclass
from sm.core.usage import SaidText
from sm.store import Schema, Store, Transaction
from sm.store.connection import Read
from sm.store.part import OUTPUTS_MAX, PartWrites, TablePart
from sm.store.rows import encode_json

_INSERT = "INSERT OR IGNORE INTO search_texts (session_id, type, at, source, text)"
_ADD = f"{_INSERT} VALUES (?, ?, ?, ?, ?)"
_PIECE_LINES = 40
_PIECE_MAX = 8_000
_SAID_MAX = 20_000
"""Characters of a text of the agent that are found. Also bounds the work for the excerpts of a search."""


@dataclass(frozen=True, slots=True)
class _Source:
    """Texts in rows of another table, as expressions of SQL. NEW is the row."""

    type: str
    table: str
    text: str
    key: str
    """Tells the texts of a session apart, so that none is added twice."""
    at: str
    session_id: str = "NEW.session_id"
    column: str | None = None
    """The column whose changes are texts. None for the texts of new rows."""

    @property
    def _when(self) -> str:
        of_session = f"SELECT 1 FROM sessions WHERE id = {self.session_id} AND removed = 0"  # noqa: S608 - constant texts
        return f"{self.text} <> '' AND {self.at} IS NOT NULL AND EXISTS ({of_session})"

    @property
    def _add(self) -> str:
        return f"{_INSERT} SELECT {self.session_id}, '{self.type}', {self.at}, {self.key}, {self.text}"

    @property
    def trigger(self) -> str:
        """The trigger that adds a text when it is written."""
        change, when = "INSERT", self._when
        if self.column is not None:
            change = f"UPDATE OF {self.column}"
            when += f" AND NEW.{self.column} IS NOT OLD.{self.column}"
        name = f"search_{self.type}s"
        return f"CREATE TEMP TRIGGER {name} AFTER {change} ON {self.table} WHEN {when} BEGIN {self._add}; END"

    @property
    def missed(self) -> str:
        """The statement that adds the texts that are not there."""
        return f"{self._add} FROM {self.table} AS NEW WHERE {self._when}"


_RECIPIENT = "coalesce(NEW.session_id, NEW.sender)"
"""A message to the operator is a text of its sender."""
_REQUEST = "trim(coalesce(NEW.tool, '') || ' ' || coalesce(NEW.arguments, '') || ' ' || NEW.questions)"
_RESULT = "NEW.completion_message", "'result ' || NEW.completed_at", "NEW.completed_at"
_SOURCES = (
    _Source("message", "messages", "NEW.text", "'message ' || NEW.id", "NEW.created_at", _RECIPIENT),
    _Source("request", "requests", _REQUEST, "'request ' || NEW.id", "NEW.created_at"),
    _Source("checkpoint", "checkpoints", "NEW.message", "'checkpoint ' || NEW.id", "NEW.timestamp"),
    _Source("prompt", "sessions", "NEW.spawn_prompt", "'prompt'", "NEW.created_at", "NEW.id"),
    _Source("note", "sessions", "NEW.note", "'note ' || NEW.note", "NEW.status_at", "NEW.id", "note"),
    _Source("result", "sessions", *_RESULT, "NEW.id", "completion_message"),
)
_SCHEMA = Schema(
    "search",
    triggers=tuple(source.trigger for source in _SOURCES),
    missed=tuple(source.missed for source in _SOURCES),
)


@dataclass(frozen=True, slots=True)
class FoundText:
    """`text`: its beginning."""

    session_id: str
    type: str
    at: str
    text: str


class SearchWrites(PartWrites):
    def follow_said(self, session_id: str, texts: Sequence[SaidText]) -> None:
        """Add texts of the agent, each once.

        A text without a time, or with a later one, gets that of the transaction. The many rows of a long transcript
        are made in the database's thread, so that they do not block the event loop.
        """
        now = self._tx.now
        self._tx.write_rows(
            _ADD,
            (
                (
                    session_id,
                    t.type,
                    t.at if t.at and t.at <= now else now,
                    t.key,
                    _storable(t.text[:_SAID_MAX]),
                )
                for t in texts
            ),
        )

    def follow_output(self, session_id: str, began: str, lines: Iterable[str], at: str) -> None:
        """Replace the text of the process. Of all processes of the session, the newest OUTPUTS_MAX texts stay."""
        source = f"terminal {began} "
        self._tx.write(
            "DELETE FROM search_texts WHERE session_id = ? AND type = 'terminal' AND substr(source, 1, ?) = ?",
            (session_id, len(source), source),
        )
        self._tx.write_rows(
            _ADD,
            (
                (session_id, "terminal", at, f"{source}{number}", piece)
                for number, piece in enumerate(_pieces(lines))
            ),
        )

        self._tx.write(
            "DELETE FROM search_texts WHERE session_id = ?1 AND type = 'terminal' AND at NOT IN (SELECT DISTINCT at"
            " FROM search_texts WHERE session_id = ?1 AND type = 'terminal' ORDER BY at DESC LIMIT ?2)",
            (session_id, OUTPUTS_MAX),
        )

    def forget_outputs(self, session_id: str) -> None:
        self._tx.write("DELETE FROM search_texts WHERE session_id = ? AND type = 'terminal'", (session_id,))


class SearchReads:
    def __init__(self, read: Read) -> None:
        self._read = read

    async def find(
        self,
        words: str,
        *,
        sessions: Collection[str] | None,
        type: str | None = None,
        since: str | None = None,
        limit: int = 20,
    ) -> list[FoundText]:
        """The texts with all of the words, best first, of equal ones the newest first. `sessions` is None for all."""
        query = fts_query(words)
        if query is None:
            return []
        where, values = ["search_index MATCH ?"], list[Any]([query])
        if sessions is not None:
            where.append("t.session_id IN (SELECT value FROM json_each(?))")
            values.append(encode_json(list(sessions)))
        if type is not None:
            where.append("t.type = ?")
            values.append(type)
        if since is not None:
            where.append("t.at >= ?")
            values.append(since)
        rows = await self._read(
            f"SELECT t.session_id, t.type, t.at, substr(t.text, 1, {_SAID_MAX})"  # noqa: S608
            " FROM search_texts AS t JOIN ("
            "SELECT t.id AS id, rank AS place FROM search_index JOIN search_texts AS t ON t.id = search_index.rowid"
            f" WHERE {' AND '.join(where)} ORDER BY rank, t.at DESC LIMIT ?) AS f ON f.id = t.id"
            " ORDER BY f.place, t.at DESC",
            (*values, limit),
        )
        return [FoundText(*row) for row in rows]


def fts_query(words: str) -> str | None:
    """The words as a query of FTS5 without operators: all must occur, `word*` is a prefix. None without a word."""
    found = []
    for word in searched_words(words):
        quoted = '"' + word.strip("*").encode("utf-8", "replace").decode().replace('"', '""') + '"'
        found.append(quoted + ("*" if word.endswith("*") else ""))
    return " ".join(found) or None


def _pieces(lines: Iterable[str]) -> Iterable[str]:
    piece: list[str] = []
    size = 0
    for line in lines:
        text = line.rstrip()
        if not text:
            continue
        text = _storable(text[:_PIECE_MAX])
        if piece and (len(piece) >= _PIECE_LINES or size + len(text) > _PIECE_MAX):
            yield "\n".join(piece)
            piece, size = [], 0
        piece.append(text)
        size += len(text)
    if piece:
        yield "\n".join(piece)


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\0", " ")


class SearchPart(TablePart[SearchReads, SearchWrites]):
    schema = _SCHEMA

    def reads(self, store: Store) -> SearchReads:
        return SearchReads(store.read)

    def writes(self, transaction: Transaction) -> SearchWrites:
        return SearchWrites(self, transaction)


PART = SearchPart()
