"""Connects to SQLite: checks and migrates the file first, executes scripts with parameters, translates errors."""

import glob
import os
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import chain
from typing import Any
from urllib.parse import quote

import aiosqlite

from sm.core.dataclass import dataclass
from sm.errors import DatabaseRefused, InternalError, StorageFull
from sm.store.migrations import Schema, check_versions, migrate

Read = Callable[[str, tuple[Any, ...]], Awaitable[list[Any]]]
"""Executes a query with parameters, and returns its rows (sqlite3.Row)."""

_CHECK_WHOLE_UP_TO_BYTES = 64 * 1024 * 1024
_SQLITE_FULL = 13
# SQLite reports a quota, a file size limit, or a shared-memory file that cannot grow with other codes than SQLITE_FULL:
# SQLITE_IOERR_WRITE, _FSYNC, _TRUNCATE, _SHMSIZE (sqlite.org, Result and Error Codes).
_CANNOT_GROW = frozenset({778, 1034, 1546, 4874})
_LOG_ROOM_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Statement:
    sql: str
    values: tuple[Any, ...] = ()
    check: Callable[[sqlite3.Cursor], None] | None = None
    """Receives the statement's cursor. An exception ends the script."""
    rows: Iterable[tuple[Any, ...]] | None = None
    """Execute once for each row, instead of once with `values`. Iterated in the database's thread."""


class Script(str):
    """A script of statements with parameters. The first failed statement ends the script."""

    __slots__ = ("statements",)
    statements: Sequence[Statement]

    def __new__(cls, statements: Sequence[Statement]) -> "Script":
        script = super().__new__(cls, f"{len(statements)} statements")
        script.statements = statements
        return script


class ScriptConnection(sqlite3.Connection):
    """Accepts a `Script` in `executescript`.

    Each call through aiosqlite costs a thread switch, several times the cost of a statement (ADR 9).
    """

    def executescript(self, sql_script: str, /) -> sqlite3.Cursor:
        if not isinstance(sql_script, Script):
            return super().executescript(sql_script)
        cursor = self.cursor()
        for statement in sql_script.statements:
            if statement.rows is not None:
                self.executemany(statement.sql, statement.rows)
                continue
            cursor = self.execute(statement.sql, statement.values)
            if statement.check is not None:
                statement.check(cursor)
        return cursor


async def connect(path: str) -> aiosqlite.Connection:
    db = await aiosqlite.connect(path, isolation_level=None, timeout=5.0, factory=ScriptConnection)
    db.row_factory = aiosqlite.Row
    await db.execute_fetchall("PRAGMA busy_timeout = 5000")
    return db


async def connect_migrated(
    path: str, schemas: Sequence[Schema]
) -> tuple[aiosqlite.Connection, aiosqlite.Connection]:
    """Check and migrate the database. Returns the connection that writes and one that reads.

    Raises StorageFull, and DatabaseRefused for a database that is damaged or of another version (neither is changed).
    """
    await inspect(path, schemas)
    writer = await connect(path)
    try:
        await writer.execute_fetchall("PRAGMA journal_mode = WAL")
        await writer.execute("PRAGMA synchronous = FULL")
        await writer.execute("PRAGMA foreign_keys = ON")
        await writer.execute("PRAGMA secure_delete = ON")  # overwrite the content that `sm rm` removes
        # A timer checkpoints the log, so that no commit has to wait for a checkpoint.
        await writer.execute_fetchall("PRAGMA wal_autocheckpoint = 0")
        await migrate(writer, path, schemas)
        await writer.executescript(";".join(chain.from_iterable(schema.triggers for schema in schemas)))
        return writer, await connect(path)
    except aiosqlite.Error as error:
        await writer.close()
        raise refusal(path, error) from error
    except BaseException:
        await writer.close()
        raise


async def rows(db: aiosqlite.Connection, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
    return list(await db.execute_fetchall(sql, values))


async def inspect(path: str, schemas: Iterable[Schema]) -> None:
    """Check an existing database through a read-only connection, before any write. Raises DatabaseRefused."""
    size = size_of(path)
    if size == 0:
        return
    try:
        db = await aiosqlite.connect(f"file:{quote(path)}?mode=ro", uri=True, isolation_level=None)
        try:
            await check_versions(db, path, schemas)
            whole = size <= _CHECK_WHOLE_UP_TO_BYTES
            result = await rows(
                db, "PRAGMA quick_check(1)" if whole else "SELECT count(*) FROM sqlite_schema"
            )
            if whole and (not result or result[0][0] != "ok"):
                raise aiosqlite.DatabaseError(str(result[0][0]) if result else "no answer")
        finally:
            await db.close()
    except aiosqlite.Error as error:
        raise refusal(path, error) from error


def refusal(path: str, error: aiosqlite.Error) -> Exception:
    """The SmError for an error of SQLite."""
    code = getattr(error, "sqlite_errorcode", None)
    if code == _SQLITE_FULL or code in _CANNOT_GROW:
        return StorageFull(
            f"the disk is full: {path} cannot grow; nothing was changed", "free disk space, then try again"
        )
    if isinstance(error, aiosqlite.IntegrityError):
        return InternalError(f"the database rejected the change: {error}")
    if isinstance(error, aiosqlite.OperationalError):
        return InternalError(f"the database failed: {error}")
    return _refused(path, f"damaged ({error}); the file was not changed")


def lost(path: str, earlier: str) -> DatabaseRefused:
    """The error for a database without its content. `earlier`: the evidence that it had content."""
    state = "empty" if os.path.exists(path) else "missing"
    return _refused(path, f"{state}, but {earlier}; nothing was changed")


def _refused(path: str, problem: str) -> DatabaseRefused:
    copies = backups(path)
    newest = f"the newest backup is {copies[0]}" if copies else "no backup exists"
    return DatabaseRefused(
        f"database {path} is {problem}; {newest}",
        "sm daemon restore-backup; or forget the sessions: sm daemon start --new",
    )


def backups(path: str) -> list[str]:
    """The backups of a database, newest first. The names of compressed ones end in .gz."""
    found = [file for end in ("", ".gz") for file in glob.glob(f"{glob.escape(path)}.*.backup{end}")]
    return sorted(found, key=os.path.getmtime, reverse=True)


def make_room(log_path: str) -> None:
    """Preallocate the write-ahead log. SQLite ignores the bytes after the last frame.

    A commit that makes the file longer also makes the file system commit its metadata. A commit that overwrites does
    not: on a busy disk it takes 0.3 ms instead of 0.9 ms (docs/benchmarks.md).
    """
    with open(log_path, "ab", buffering=0) as file:
        size = file.tell()
        room = bytes(max(0, _LOG_ROOM_BYTES - size))
        try:
            if file.write(room) == len(room):
                os.fsync(file.fileno())
                return
        except OSError:
            pass
        file.truncate(size)  # the disk is full: the first commit will fail


def size_of(path: str) -> int:
    return os.path.getsize(path) if os.path.exists(path) else 0
