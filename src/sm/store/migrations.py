"""Brings a database to the newest version, in numbered steps. Never edit a released step.

A new database begins with the tables of version 10. `scripts/upgrade-database` brings an older database to version 10.
The tables of a capability are a `Schema`, with a version and steps of its own.
"""

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

import aiosqlite

from sm.core.dataclass import dataclass
from sm.errors import DatabaseRefused
from sm.store.tables import TABLES

log = logging.getLogger(__name__)

_NEWER_SM = "install the version of sm that wrote the database, or a newer one"

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

_V14: tuple[str, ...] = (
    "CREATE TABLE schemas (name TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID",
    # The tables of capabilities that the numbered steps made until now.
    """INSERT INTO schemas (name, version)
        SELECT 'budgets', 1 WHERE EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'budgets')""",
)

_V15_CALLS: tuple[str, ...] = (
    # A call to Telegram is an effect without a session.
    """CREATE TABLE new_outbox (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL,
        session_id TEXT REFERENCES sessions (id),
        payload TEXT NOT NULL,
        state TEXT NOT NULL DEFAULT 'pending',
        reason TEXT,
        created_at TEXT NOT NULL
    )""",
    """INSERT INTO new_outbox (id, kind, session_id, payload, state, reason, created_at)
        SELECT id, kind, session_id, payload, state, reason, created_at FROM outbox""",
    # No number is used twice, because events name effects.
    "DELETE FROM sqlite_sequence WHERE name = 'new_outbox'",
    "INSERT INTO sqlite_sequence (name, seq) SELECT 'new_outbox', seq FROM sqlite_sequence WHERE name = 'outbox'",
    "DROP TABLE outbox",
    "ALTER TABLE new_outbox RENAME TO outbox",
    "CREATE INDEX outbox_by_state ON outbox (state, id)",
    """INSERT INTO outbox (kind, payload, state, created_at)
        SELECT 'telegram', json_object('chat_id', chat_id, 'method', method, 'parameters', json(parameters),
            'need', need, 'lost_answers', lost_answers, 'subject', subject, 'about', about),
            iif(state = 'queued', 'pending', 'taken'), created_at
        FROM telegram_outgoing ORDER BY id""",
    "DROP TABLE telegram_outgoing",
)

_V15_ENDED: tuple[str, ...] = (
    # Most sessions are no longer in memory (store/history.py).
    "CREATE INDEX sessions_by_end ON sessions (status_at, id) WHERE removed = 0",
    "CREATE INDEX sessions_unfinished ON sessions (id) WHERE removed = 0"
    " AND NOT (ended = 1 AND status IN ('abandoned', 'completed', 'error', 'killed'))",
    "CREATE INDEX sessions_of_parents ON sessions (parent_id, status_at) WHERE parent_id IS NOT NULL",
    "CREATE INDEX sessions_by_mode ON sessions (effective_mode, working_dir, workspace)",
    "CREATE INDEX sessions_of_conversations ON sessions (conversation) WHERE conversation IS NOT NULL",
    "CREATE INDEX sessions_by_type ON sessions (agent_type, status, status_at)",
    "CREATE INDEX sessions_by_provider ON sessions (provider, effective_mode, status_at)",
    "CREATE INDEX sessions_bound ON sessions (bound_to) WHERE bound_to IS NOT NULL",
    "CREATE INDEX sessions_by_name ON sessions (friendly_name) WHERE friendly_name IS NOT NULL",
    "CREATE INDEX sessions_by_short_name ON sessions (substr(friendly_name, length(agent_type) + 2))"
    " WHERE friendly_name IS NOT NULL",
)

_V15: tuple[str, ...] = (*_V15_CALLS, *_V15_ENDED)

_V16: tuple[str, ...] = (
    "ALTER TABLE schemas ADD COLUMN was_absent INTEGER NOT NULL DEFAULT 0",
    # The capability of search adds texts itself. The triggers that delete those of removed sessions stay.
    # Until now none was missed.
    "INSERT INTO schemas (name, version) SELECT 'search', 1 WHERE EXISTS (SELECT 1 FROM search_texts)",
    *(
        f"DROP TRIGGER search_{rows}"
        for rows in ("messages", "requests", "checkpoints", "prompts", "notes", "results")
    ),
    "CREATE INDEX sessions_removed ON sessions (completed_at) WHERE removed = 1",
)

_V17: tuple[str, ...] = ("ALTER TABLE messages ADD COLUMN own_lines INTEGER NOT NULL DEFAULT 0",)

MIGRATIONS: dict[int, tuple[str, ...]] = {
    10: TABLES,
    11: _V11,
    12: _V12,
    13: _V13,
    14: _V14,
    15: _V15,
    16: _V16,
    17: _V17,
}
"""The statements that make each version (`PRAGMA user_version`) from the one before, and the first from nothing."""
_OLDEST, _NEWEST = min(MIGRATIONS), max(MIGRATIONS)


class UnknownVersion(DatabaseRefused):
    """The database is intact, and of a version that this sm does not read."""


class Recorded(NamedTuple):
    """The state of a schema in a database."""

    version: int = 0
    """0 for a database without its tables."""
    was_absent: bool = False
    """The last daemon ran without the capability."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables of a capability, whose version each database records. Never edit what is released: add a step.

    `tables`: the statements of version 1. `steps`: those of each later version.
    """

    name: str
    tables: tuple[str, ...] = ()
    steps: tuple[tuple[str, ...], ...] = ()
    triggers: tuple[str, ...] = ()
    """Temporary triggers, which act only in a daemon with the capability. They may change without a step."""
    missed: tuple[str, ...] = ()
    """Makes up for what the triggers missed, after a daemon without the capability and with each new version."""

    @property
    def version(self) -> int:
        return 1 + len(self.steps)

    def statements(self, recorded: Recorded) -> Iterator[str]:
        """Yield those that bring the tables from the recorded state to the newest version."""
        if recorded != Recorded(self.version):
            yield from chain.from_iterable((self.tables, *self.steps)[recorded.version :])
            yield from self.missed
            yield f"INSERT OR REPLACE INTO schemas (name, version) VALUES ('{self.name}', {self.version})"  # noqa: S608 - a constant name


async def check_versions(
    db: aiosqlite.Connection, path: str, schemas: Iterable[Schema]
) -> tuple[int, dict[str, Recorded]]:
    """Read the version of the database (0 for a new one) and the state of each schema in it. Raises UnknownVersion."""
    ((version,),) = await db.execute_fetchall("PRAGMA user_version")
    if 0 < version < _OLDEST:
        raise UnknownVersion(
            f"database {path} has version {version}, this sm supports {_OLDEST} and newer; the file was not changed",
            f"in a clone of sm: scripts/upgrade-database {path}",
        )
    if version > _NEWEST:
        raise UnknownVersion(
            f"database {path} has version {version}, this sm supports up to {_NEWEST}; the file was not changed",
            _NEWER_SM,
        )
    recorded = await _recorded(db)
    for schema in schemas:
        if (newer := recorded.get(schema.name, Recorded()).version) > schema.version:
            raise UnknownVersion(
                f"database {path} has version {newer} of its {schema.name}, "
                f"this sm supports up to {schema.version}; the file was not changed",
                _NEWER_SM,
            )
    return version, recorded


async def migrate(db: aiosqlite.Connection, path: str, schemas: Sequence[Schema] = ()) -> None:
    """Bring the database and the tables of each schema to their newest versions: in one transaction, after a backup.

    Also record the schemas that are not in the list as absent.
    """
    version, recorded = await check_versions(db, path, schemas)
    known = {schema.name: schema for schema in schemas}
    is_older = version < _NEWEST or any(
        recorded.get(name, Recorded()).version < schema.version for name, schema in known.items()
    )
    if not is_older and all(of.was_absent == (name not in known) for name, of in recorded.items()):
        return
    if is_older and version > 0:  # a new database needs no backup
        backup = f"{path}.v{version}.backup"
        with suppress(FileNotFoundError):  # left by a failed attempt
            os.unlink(backup)
        await db.execute("VACUUM INTO ?", (backup,))
    await db.execute("BEGIN IMMEDIATE")
    try:
        for number, statements in MIGRATIONS.items():
            if number > version:
                await _execute(db, statements)
        recorded = await _recorded(db)
        for name, schema in known.items():
            await _execute(db, schema.statements(recorded.get(name, Recorded())))
        for name in recorded.keys() - known.keys():
            await db.execute("UPDATE schemas SET was_absent = 1 WHERE name = ?", (name,))
        await db.execute(f"PRAGMA user_version = {_NEWEST}")
    except BaseException:
        await db.execute("ROLLBACK")
        raise
    await db.execute("COMMIT")
    if is_older:
        log.info("migrated the database from version %d to %d", version, _NEWEST)


async def _recorded(db: aiosqlite.Connection) -> dict[str, Recorded]:
    """Read the state of each schema in the database."""
    if not await db.execute_fetchall("SELECT 1 FROM sqlite_schema WHERE name = 'schemas'"):
        return {}
    # Before version 16 there was no column `was_absent`.
    rows = await db.execute_fetchall("SELECT * FROM schemas")
    return {name: Recorded(version, *map(bool, was_absent)) for name, version, *was_absent in rows}


async def _execute(db: aiosqlite.Connection, statements: Iterable[str]) -> None:
    for statement in statements:
        await db.execute(statement)
