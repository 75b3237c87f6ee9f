"""A finished empty database, which tests copy: its migrations are two thirds of a daemon's start."""

import sqlite3
from collections.abc import Sequence
from functools import cache, partial
from itertools import chain

import aiosqlite

from sm.store.migrations import MIGRATIONS, Recorded, Schema, check_versions, migrate
from sm.store.part import known_schemas


@cache
def empty_database() -> sqlite3.Connection:
    """Carry out the real migrations, once in this process."""
    # Each database that is copied from it has a thread of its own outside of a simulation.
    database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    for statement in chain(
        *MIGRATIONS.values(), *(schema.statements(Recorded()) for schema in known_schemas())
    ):
        database.execute(statement)
    database.execute(f"PRAGMA user_version = {max(MIGRATIONS)}")
    # Drawn by SQLite, which knows no seed.
    database.execute("UPDATE meta SET value = ? WHERE name = 'account_key'", ("5e" * 32,))
    return database


async def migrate_or_copy(db: aiosqlite.Connection, path: str, schemas: Sequence[Schema] = ()) -> None:
    """As `migrate`, with a copy of the template for a database that is new: it has the tables of all capabilities."""
    version, _ = await check_versions(db, path, schemas)
    if version > 0:
        await migrate(db, path, schemas)
    else:
        assert db._connection is not None
        await db._execute(partial(empty_database().backup, db._connection))  # type: ignore[no-untyped-call]


async def prepare(db: aiosqlite.Connection, path: str, schemas: Sequence[Schema] = ()) -> None:
    """As `migrate_or_copy`, and let the commits wait for no disk."""
    await db.execute("PRAGMA synchronous = OFF")
    await migrate_or_copy(db, path, schemas)
