"""A finished empty database, which tests copy: its migrations are two thirds of a daemon's start."""

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from itertools import chain

import aiosqlite

from sm.store import connection
from sm.store.migrations import MIGRATIONS, Recorded, Schema, migrate
from sm.store.part import known_schemas

_VERSIONS_AT = slice(18, 20)
_WAL = b"\2\2"
"""The bytes there in the file of a database with a write-ahead log (SQLite, "Database File Format", 1.3.3)."""
_inspect = connection.inspect


@cache
def empty_database() -> bytes:
    """The file of a new database. Its migrations are carried out once in this process."""
    database = sqlite3.connect(":memory:", isolation_level=None)
    for statement in chain(
        *MIGRATIONS.values(), *(schema.statements(Recorded()) for schema in known_schemas())
    ):
        database.execute(statement)
    database.execute(f"PRAGMA user_version = {max(MIGRATIONS)}")
    # Drawn by SQLite, which knows no seed.
    database.execute("UPDATE meta SET value = ? WHERE name = 'account_key'", ("5e" * 32,))
    content = bytearray(database.serialize())
    database.close()
    content[_VERSIONS_AT] = _WAL
    return bytes(content)


async def inspect_or_copy(path: str, schemas: Sequence[Schema]) -> None:
    """As `inspect`, and make a database that is new: it has the tables of all capabilities."""
    await _inspect(path, schemas)
    if connection.size_of(path) == 0:
        with suppress(OSError), open(path, "wb") as file:  # SQLite reports the failure better
            file.write(empty_database())


async def migrate_fast(db: aiosqlite.Connection, path: str, schemas: Sequence[Schema] = ()) -> None:
    """As `migrate`, and let the commits wait for no disk."""
    await db.execute("PRAGMA synchronous = OFF")
    await migrate(db, path, schemas)
