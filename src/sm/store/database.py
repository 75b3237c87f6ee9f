"""The database: one writer, grouped commits, a mirror of the sessions in memory.

Every change goes through `Store.write(unit)`: `unit` gets a `Transaction`, and everything it does is
committed together or not at all. Units run one after the other; those that wait at the same time share
one commit (and its fsync). Readers see only what is committed.
"""

import asyncio
import glob
import logging
import os
import sqlite3
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

import aiosqlite

from sm.core.models import Checkpoint, Event, EventType, Launch, Session, Workspace
from sm.errors import DatabaseRefused, InternalError, NotFound, StorageFull
from sm.store.messages import Effect, MailReads
from sm.store.migrations import migrate, refuse_newer, version_of
from sm.store.rows import (
    COLUMNS,
    WORKSPACE_COLUMNS,
    decoded,
    encoded,
    from_row,
    launch_from_json,
    workspace_from,
)
from sm.store.transaction import Transaction
from sm.store.usage import MeasureReads

log = logging.getLogger(__name__)

_MOST_UNITS_IN_A_COMMIT = 64
_CHECK_WHOLE_UP_TO_BYTES = 64 * 1024 * 1024
_SQLITE_FULL = 13
# A quota, a limit of the file's size, or a shared-memory file that cannot grow are no SQLITE_FULL:
# SQLITE_IOERR_WRITE, _FSYNC, _TRUNCATE, _SHMSIZE (sqlite.org, Result and Error Codes).
_CANNOT_GROW = frozenset({778, 1034, 1546, 4874})
_LOG_ROOM_BYTES = 4 * 1024 * 1024


T = TypeVar("T")
_Unit = Callable[[Transaction], Awaitable[Any]]


class Store:
    """The open database. Use `async with await Store.open(path)`."""

    def __init__(self, path: str, writer: aiosqlite.Connection, reader: aiosqlite.Connection) -> None:
        self._path = path
        self._writer = writer
        self._reader = reader
        self._units: asyncio.Queue[tuple[_Unit, asyncio.Future[Any]] | None] = asyncio.Queue()
        self._told = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self._sessions: dict[str, Session] = {}
        self._by_token: dict[str, str] = {}
        self._workspaces: dict[str, Workspace] = {}
        self.mail = MailReads(reader)
        self.measures = MeasureReads(reader)
        self.instance = ""
        self.last_seq = 0
        self.effects: asyncio.Queue[Effect] = asyncio.Queue()
        """Committed rows of the outbox, in order, for whoever carries them out."""

    @classmethod
    async def open(cls, path: str) -> "Store":
        """Open, check and migrate the database.

        Raises DatabaseRefused for one that is damaged or of a newer version (neither is touched), and
        StorageFull.
        """
        await _inspect(path)
        writer = await _connect(path)
        try:
            await writer.execute_fetchall("PRAGMA journal_mode = WAL")
            await writer.execute("PRAGMA synchronous = FULL")
            await writer.execute("PRAGMA foreign_keys = ON")
            await writer.execute("PRAGMA secure_delete = ON")  # what `sm rm` removes is to be gone
            # A timer does it, off the writer's path.
            await writer.execute_fetchall("PRAGMA wal_autocheckpoint = 0")
            await migrate(writer, path)
            reader = await _connect(path)
        except aiosqlite.Error as error:
            await writer.close()
            raise _refusal(path, error) from error
        except BaseException:
            await writer.close()
            raise
        store = cls(path, writer, reader)
        await store._load()
        await asyncio.to_thread(_make_room, path + "-wal")
        return store

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="store-writer")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._units.put_nowait(None)
        await self._task
        await self._reader.close()
        with suppress(aiosqlite.Error):  # a full disk must not keep the daemon from ending
            await self._writer.execute_fetchall("PRAGMA wal_checkpoint(TRUNCATE)")
        await self._writer.close()

    async def _load(self) -> None:
        names = ", ".join(COLUMNS)
        query = f"SELECT {names} FROM sessions WHERE removed = 0 ORDER BY created_at, id"  # noqa: S608 - names of ours
        async with self._writer.execute(query) as cursor:
            async for row in cursor:
                session = from_row(dict(row))
                self._put(session)
        names = ", ".join(WORKSPACE_COLUMNS)
        query = f"SELECT {names} FROM workspaces ORDER BY slug"  # noqa: S608 - names of ours
        async with self._writer.execute(query) as cursor:
            async for row in cursor:
                self._workspaces[row["slug"]] = workspace_from(dict(row))
        async with self._writer.execute("SELECT seq FROM sqlite_sequence WHERE name = 'events'") as cursor:
            last = await cursor.fetchone()
        self.last_seq = int(last[0]) if last else 0
        await self._writer.execute(
            "INSERT OR IGNORE INTO meta (name, value) VALUES ('instance', ?)", (str(uuid.uuid4()),)
        )
        async with self._writer.execute("SELECT value FROM meta WHERE name = 'instance'") as cursor:
            found = await cursor.fetchone()
        assert found is not None
        self.instance = found[0]
        await self.mail.load()

    # Writing

    async def write(self, unit: Callable[[Transaction], Awaitable[T]]) -> T:
        """Run `unit` in a transaction and return its result once it is on disk.

        An exception of `unit` undoes all it did and is raised here. Raises StorageFull.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._units.put_nowait((unit, future))
        return await future

    async def ended(self) -> None:
        """Wait for the end of the writer, and raise what it ended by. Without it nothing can be written any more."""
        assert self._task is not None
        await asyncio.shield(self._task)

    async def _run(self) -> None:
        going_on = True
        while going_on:
            waiting = [await self._units.get()]
            while len(waiting) < _MOST_UNITS_IN_A_COMMIT and not self._units.empty():
                waiting.append(self._units.get_nowait())
            batch = [unit for unit in waiting if unit is not None]
            going_on = len(batch) == len(waiting)
            if batch:
                await self._commit(batch)

    async def _commit(self, batch: list[tuple[_Unit, asyncio.Future[Any]]]) -> None:
        staged: dict[str, Session] = {}
        workspaces = self._workspaces
        removed: set[str] = set()
        open = self.mail.open
        events: list[Event] = []
        effects: list[Effect] = []
        results: list[tuple[asyncio.Future[Any], Any]] = []
        shared = len(batch) > 1
        begin, end, undo = (
            ("SAVEPOINT unit", "RELEASE unit", "ROLLBACK TO unit")
            if shared
            else ("BEGIN IMMEDIATE", "COMMIT", "ROLLBACK")
        )
        try:
            if shared:
                await self._writer.execute("BEGIN IMMEDIATE")
            for unit, future in batch:
                before = self._sessions | staged if staged else self._sessions
                if removed:
                    before = {key: session for key, session in before.items() if key not in removed}
                transaction = Transaction(self._writer, begin, before, workspaces, open, self.mail.numbers)
                try:
                    result = await unit(transaction)
                    await transaction.end(end)
                except aiosqlite.IntegrityError as error:  # a defect of this unit, and of no other
                    await self._writer.execute(undo)
                    if shared:
                        await self._writer.execute(end)
                    _fail(future, InternalError(f"the database refused it: {error}"))
                    continue
                except aiosqlite.Error:
                    raise
                except Exception as error:  # noqa: BLE001 - an edge: a unit's failure is its caller's
                    if transaction.begun:
                        await self._writer.execute(undo)
                        if shared:
                            await self._writer.execute(end)
                    _fail(future, error)
                    continue
                staged |= transaction.sessions
                if transaction.workspaces:
                    workspaces = {**workspaces, **transaction.workspaces}
                removed |= transaction.removed
                open = transaction.mail.open
                events += transaction.events
                effects += transaction.effects
                results.append((future, result))
            if shared:
                await self._writer.execute("COMMIT")
        except aiosqlite.Error as error:
            if self._writer.in_transaction:
                await self._writer.execute("ROLLBACK")
            for _, future in batch:
                _fail(future, _refusal(self._path, error))
            return
        for session in staged.values():
            self._put(session)
        changed = workspaces is not self._workspaces
        self._workspaces = workspaces
        for session_id in removed:
            gone = self._sessions.pop(session_id, None)
            if gone is not None:
                self._by_token.pop(gone.token_hash or "", None)
        changed |= bool(staged or events or removed) or open is not self.mail.open
        self.mail.open = open
        if events:
            self.last_seq = events[-1].seq
        for effect in effects:
            self.effects.put_nowait(effect)
        for future, result in results:
            if not future.done():
                future.set_result(result)
        if changed:
            async with self._told:
                self._told.notify_all()

    # Reading

    def _put(self, session: Session) -> None:
        before = self._sessions.get(session.id)
        self._sessions[session.id] = session
        if before is None or before.token_hash != session.token_hash:
            if before is not None:
                self._by_token.pop(before.token_hash or "", None)
            if session.token_hash is not None:
                self._by_token[session.token_hash] = session.id

    def session_of_token(self, token_hash: str) -> Session | None:
        """The session whose process was given the token with this hash, whether it lives or not, as committed."""
        return self._sessions.get(self._by_token.get(token_hash, ""))

    @property
    def sessions(self) -> Mapping[str, Session]:
        """Every session by id, oldest first, as committed."""
        return self._sessions

    @property
    def workspaces(self) -> Mapping[str, Workspace]:
        """Every workspace by slug, deleted ones too, as committed. Never changed in place."""
        return self._workspaces

    async def changed(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` holds, asking again after every commit that changed something."""
        async with self._told:
            await self._told.wait_for(condition)

    async def events(
        self,
        *,
        sessions: Collection[str] | None,
        type: str | None = None,
        since: int | None = None,
        limit: int = 50,
    ) -> list[Event]:
        """Events in order: the newest `limit`, or with `since` the first `limit` after that seq."""
        where, values = ["1"], list[Any]()
        if sessions is not None:
            where.append("session_id IN (SELECT value FROM json_each(?))")
            values.append(encoded(list(sessions)))
        if type is not None:
            where.append("type = ?")
            values.append(type)
        if since is not None:
            where.append("seq > ?")
            values.append(since)
        order = "DESC" if since is None else "ASC"
        query = (
            "SELECT seq, type, session_id, parent_session_id, timestamp, message, metadata FROM events"  # noqa: S608
            f" WHERE {' AND '.join(where)} ORDER BY seq {order} LIMIT ?"
        )
        async with self._reader.execute(query, (*values, limit)) as cursor:
            found = deque[Event]()
            async for row in cursor:
                event = Event(row[0], EventType(row[1]), row[2], row[3], row[4], row[5], decoded(row[6]))
                if since is None:
                    found.appendleft(event)
                else:
                    found.append(event)
        return list(found)

    async def checkpoints(self, session_id: str) -> list[Checkpoint]:
        async with self._reader.execute(
            "SELECT timestamp, message, metadata FROM checkpoints WHERE session_id = ? ORDER BY id",
            (session_id,),
        ) as cursor:
            return [Checkpoint(row[0], row[1], decoded(row[2])) async for row in cursor]

    async def launch(self, session_id: str) -> Launch:
        rows = list(
            await self._reader.execute_fetchall(
                "SELECT launch FROM sessions WHERE id = ? AND removed = 0", (session_id,)
            )
        )
        if not rows:
            raise NotFound(f"no such session: {session_id}")
        return launch_from_json(rows[0][0])

    async def effects_in(self, state: str) -> list[Effect]:
        """What the outbox still holds, in order, for the start of the daemon; later ones come by `effects`."""
        async with self._reader.execute(
            "SELECT id, kind, session_id, payload FROM outbox WHERE state = ? ORDER BY id", (state,)
        ) as cursor:
            return [Effect(row[0], row[1], row[2], decoded(row[3])) async for row in cursor]

    async def dead_letters(self, sessions: Collection[str] | None = None) -> int:
        """Effects that were given up, and messages that never arrived: of and to these sessions (None: of all)."""
        ids = None if sessions is None else encoded(list(sessions))
        async with self._reader.execute(
            "SELECT count(*) FROM outbox WHERE state = 'dead'"
            " AND (?1 IS NULL OR session_id IN (SELECT value FROM json_each(?1)))",
            (ids,),
        ) as cursor:
            row = await cursor.fetchone()
        return (int(row[0]) if row else 0) + await self.mail.lost(sessions)

    # Upkeep

    async def checkpoint_log(self) -> None:
        """Move the write-ahead log into the database without making writers wait (SQLite, PASSIVE)."""
        with suppress(aiosqlite.OperationalError):
            await self._reader.execute_fetchall("PRAGMA wal_checkpoint(PASSIVE)")

    async def scrub(self) -> None:
        """Overwrite what was removed in the write-ahead log too (SQLite, TRUNCATE), unless a reader is in the way."""

        def run(db: sqlite3.Connection) -> None:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            _make_room(self._path + "-wal")

        with suppress(aiosqlite.OperationalError):
            # In the writer's thread, so that nothing else writes to the log meanwhile (see ADR 4 for `_execute`).
            await self._writer._execute(run, self._writer._conn)  # type: ignore[no-untyped-call]  # it is not typed

    async def forget_keys(self, before: str) -> None:
        """Forget the Idempotency-Keys that are older than `before`."""

        async def unit(tx: Transaction) -> None:
            await tx.forget_keys(before)

        await self.write(unit)

    async def backup(self, name: str, keep: int) -> None:
        """Write a consistent copy beside the database as PATH.NAME.backup and keep the newest `keep`."""
        target = f"{self._path}.{name}.backup"
        with suppress(FileNotFoundError):
            os.unlink(target + ".new")
        db = await _connect(self._path)  # one of its own: VACUUM INTO tolerates no other statement beside it
        try:
            await db.execute("VACUUM INTO ?", (target + ".new",))
        except aiosqlite.Error as error:
            with suppress(FileNotFoundError):  # half of one would only keep the disk full
                os.unlink(target + ".new")
            raise _refusal(self._path, error) from error
        finally:
            await db.close()
        os.rename(target + ".new", target)
        for old in backups(self._path)[keep:]:
            os.unlink(old)


def backups(path: str) -> list[str]:
    """The backups of a database, newest first."""
    return sorted(glob.glob(glob.escape(path) + ".*.backup"), key=os.path.getmtime, reverse=True)


def _make_room(log_path: str) -> None:
    """Lengthen the write-ahead log, which ends for SQLite where its frames end.

    A commit that makes the file longer makes the file system commit too, with whatever else it holds; one that
    overwrites does not: on a busy disk that is 0.3 ms instead of 0.9 (docs/benchmarks.md).
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
        file.truncate(size)  # the disk is full: the first commit will tell


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


async def _connect(path: str) -> aiosqlite.Connection:
    db = await aiosqlite.connect(path, isolation_level=None, timeout=5.0)
    db.row_factory = aiosqlite.Row
    await db.execute_fetchall("PRAGMA busy_timeout = 5000")
    return db


async def _inspect(path: str) -> None:
    """Look at an existing database through a read-only connection, before anything may write to it."""
    size = _size(path)
    if size == 0:
        return
    try:
        db = await aiosqlite.connect(f"file:{_quoted(path)}?mode=ro", uri=True, isolation_level=None)
        try:
            refuse_newer(await version_of(db), path)
            whole = size <= _CHECK_WHOLE_UP_TO_BYTES
            async with db.execute(
                "PRAGMA quick_check(1)" if whole else "SELECT count(*) FROM sqlite_schema"
            ) as c:
                row = await c.fetchone()
            if whole and (row is None or row[0] != "ok"):
                raise aiosqlite.DatabaseError(str(row[0]) if row else "no answer")
        finally:
            await db.close()
    except aiosqlite.Error as error:
        raise _refusal(path, error) from error


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


def _quoted(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _refusal(path: str, error: aiosqlite.Error) -> Exception:
    code = getattr(error, "sqlite_errorcode", None)
    if code == _SQLITE_FULL or code in _CANNOT_GROW:
        return StorageFull(
            f"the disk is full: {path} cannot grow; nothing was changed", "make room, then repeat"
        )
    if isinstance(error, aiosqlite.OperationalError):
        return InternalError(f"the database answered: {error}")
    found = backups(path)
    kept = f"; the newest backup is {found[0]}" if found else "; there is no backup of it yet"
    return DatabaseRefused(
        f"{path} is damaged ({error}) and was not touched{kept}",
        f"move it away{' and put the backup in its place' if found else ''}, then: sm daemon start",
    )
