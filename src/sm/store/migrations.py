"""Brings a database to the newest version, in numbered steps. Never edit a released step.

A new database begins with the tables of version 10. `scripts/upgrade-database` brings an older database to version 10.
"""

import logging
import os
from contextlib import suppress

import aiosqlite

from sm.errors import DatabaseRefused
from sm.store.tables import TABLES

log = logging.getLogger(__name__)

_V11_EXCHANGES: tuple[str, ...] = (
    # What sm did about two sessions that only answer each other; first < second.
    """CREATE TABLE exchanges (
        first TEXT NOT NULL,
        second TEXT NOT NULL,
        after_id INTEGER NOT NULL,
        owner TEXT,
        request INTEGER,
        is_refused INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (first, second)
    ) WITHOUT ROWID""",
    "CREATE INDEX exchanges_of_requests ON exchanges (request) WHERE request IS NOT NULL",
    "ALTER TABLE messages ADD COLUMN held_until TEXT",
)

_V11_WRITABLE: tuple[str, ...] = (
    # Paths of this machine that a container could write. No row is ever deleted: sessions, workspaces and settings may
    # be gone, and what was written there stays.
    """CREATE TABLE writable_paths (
        path TEXT PRIMARY KEY,
        workspace TEXT,
        at TEXT NOT NULL
    ) WITHOUT ROWID""",
    """INSERT OR IGNORE INTO writable_paths (path, workspace, at)
        SELECT working_dir, workspace, min(created_at) FROM sessions
        WHERE effective_mode <> 'direct' GROUP BY working_dir""",
    """INSERT OR IGNORE INTO writable_paths (path, workspace, at)
        SELECT directory, slug, created_at FROM workspaces
        WHERE slug IN (SELECT workspace FROM sessions WHERE effective_mode <> 'direct')""",
    """INSERT OR IGNORE INTO writable_paths (path, workspace, at)
        SELECT substr(m.value, 1, length(m.value) - 3), slug, created_at
        FROM workspaces, json_each(workspaces.sandbox, '$.mounts') AS m
        WHERE m.value LIKE '/%:rw'
            AND slug IN (SELECT workspace FROM sessions WHERE effective_mode <> 'direct')""",
)

_V11_ENDINGS: tuple[str, ...] = (
    # The end of a session's last turn, from its report until the session's status follows it.
    """CREATE TABLE turn_ends (
        session_id TEXT PRIMARY KEY REFERENCES sessions (id),
        at TEXT NOT NULL,
        runs INTEGER NOT NULL,
        work TEXT NOT NULL,
        observation TEXT NOT NULL
    )""",
    "ALTER TABLE sessions ADD COLUMN lost_parent TEXT",
)

_V11_WARNINGS: tuple[str, ...] = (
    # A session may have several open warnings of a kind, about different subjects.
    "ALTER TABLE warnings ADD COLUMN subject TEXT NOT NULL DEFAULT ''",
    "DROP INDEX open_warnings",
    "CREATE UNIQUE INDEX open_warnings ON warnings (session_id, kind, subject) WHERE closed_at IS NULL",
)

_V11: tuple[str, ...] = (
    *_V11_EXCHANGES,
    *_V11_WRITABLE,
    *_V11_ENDINGS,
    *_V11_WARNINGS,
)

_V12: tuple[str, ...] = (
    "ALTER TABLE sessions ADD COLUMN seen_at TEXT",
    "ALTER TABLE sessions ADD COLUMN told_operator INTEGER NOT NULL DEFAULT 0",
    # Nobody recorded until now what the operator has seen. Failures, and agents that still run, are shown once more.
    """UPDATE sessions SET seen_at = status_at
        WHERE archived = 1 OR status = 'killed' OR (status = 'completed' AND ended = 1)""",
    """UPDATE sessions SET told_operator = 1 WHERE id IN (
        SELECT session_id FROM notices
        WHERE kind = 'ending' AND recipient IS NULL AND occasion = 'ending:' || sessions.openings)""",
)

_V13: tuple[str, ...] = ("ALTER TABLE sessions ADD COLUMN program_version TEXT",)

MIGRATIONS: dict[int, tuple[str, ...]] = {10: TABLES, 11: _V11, 12: _V12, 13: _V13}
"""The statements that make each version (`PRAGMA user_version`) from the one before, and the first from nothing."""
_OLDEST, _NEWEST = min(MIGRATIONS), max(MIGRATIONS)


async def version_of(db: aiosqlite.Connection) -> int:
    async with db.execute("PRAGMA user_version") as cursor:
        row = await cursor.fetchone()
    return int(row[0]) if row else 0


def is_known(version: int) -> bool:
    """True for a version that `migrate` takes. A new database has version 0."""
    return version == 0 or _OLDEST <= version <= _NEWEST


def refuse_unknown(version: int, path: str) -> None:
    """Raise DatabaseRefused for a database that a newer sm wrote, or one that is too old."""
    if version > _NEWEST:
        raise DatabaseRefused(
            f"database {path} has version {version}, this sm supports up to {_NEWEST}; the file was not changed",
            "install the version of sm that wrote the database, or a newer one",
        )
    if not is_known(version):
        raise DatabaseRefused(
            f"database {path} has version {version}, this sm supports {_OLDEST} and newer; the file was not changed",
            f"in a clone of sm: scripts/upgrade-database {path}",
        )


async def migrate(db: aiosqlite.Connection, path: str) -> None:
    """Migrate the database to the newest version, each step in a transaction, after a backup.

    After a crash between two steps, the next start continues with the second step.
    """
    before = await version_of(db)
    refuse_unknown(before, path)
    for version, statements in MIGRATIONS.items():
        if version <= before:
            continue
        if before > 0:  # a new database needs no backup
            backup = f"{path}.v{version - 1}.backup"
            with suppress(FileNotFoundError):  # left by a failed attempt at this step
                os.unlink(backup)
            await db.execute("VACUUM INTO ?", (backup,))
        await db.execute("BEGIN IMMEDIATE")
        try:
            for statement in statements:
                await db.execute(statement)
            await db.execute(f"PRAGMA user_version = {version}")
        except BaseException:
            await db.execute("ROLLBACK")
            raise
        await db.execute("COMMIT")
        log.info("migrated the database to version %d", version)
