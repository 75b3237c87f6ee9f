"""Stars in the database, with a copy of all of them in memory."""

from collections.abc import Mapping
from dataclasses import astuple

from sm.capabilities.stars.model import Star
from sm.store import Schema, Store, Transaction
from sm.store.connection import Read
from sm.store.part import PartWrites, TablePart


class StarWrites(PartWrites):
    """Changes the stars in a transaction."""

    rows: Mapping[str, Star]

    def put(self, star: Star) -> None:
        """Add the star, or replace that of its session."""
        self._tx.write("INSERT OR REPLACE INTO stars VALUES (?, ?, ?, ?)", astuple(star))
        self.keep({**self.rows, star.session_id: star})

    def forget(self, session_id: str) -> None:
        """Delete the star of a session."""
        self._tx.write("DELETE FROM stars WHERE session_id = ?", (session_id,))
        self.keep({known: star for known, star in self.rows.items() if known != session_id})


class StarTable(TablePart[Store, StarWrites]):
    """The table of stars. Its copy has them by session."""

    schema = Schema(
        "stars",
        (
            "CREATE TABLE stars (session_id TEXT PRIMARY KEY, reason TEXT NOT NULL, by TEXT NOT NULL,"
            " until TEXT NOT NULL)",
        ),
    )
    by_session = True

    async def load(self, read: Read) -> Mapping[str, Star]:
        rows = await read("SELECT session_id, reason, by, until FROM stars", ())
        return {row[0]: Star(*row) for row in rows}

    def reads(self, store: Store) -> Store:
        return store

    def writes(self, transaction: Transaction) -> StarWrites:
        return StarWrites(self, transaction)


PART = StarTable()
