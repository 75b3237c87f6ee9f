"""The open database: reads, transactions, and the committed data in memory.

Every change is made in `async with store.transaction() as tx`. Transactions run one after the other. Transactions that
wait at the same time share one commit and its fsync. Readers see only committed data.
"""

import asyncio
import os
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import aiosqlite

from sm.core.models import Caller, RequestKey, Session, Workspace
from sm.core.session_index import KnownSessions
from sm.core.sightings import Sighting
from sm.core.timestamps import iso
from sm.store.backup import write_backup
from sm.store.change_signal import ChangeSignal
from sm.store.commit import Committer
from sm.store.connection import connect_migrated, make_room, refusal
from sm.store.kernel_reads import KernelReads
from sm.store.migrations import Schema
from sm.store.part import PartWrites, TablePart, known_parts, known_schemas
from sm.store.retention import prune
from sm.store.rows import WORKSPACES
from sm.store.session_memory import SessionMemory
from sm.store.transaction import Transaction
from sm.store.usage_counting import UsageReads
from sm.store.work_clock import RunClock, WorkClock
from sm.store.write_ahead_log import WriteAheadLog

_LOW_BYTES = 1024 * 1024

R = TypeVar("R")


def _utc_now() -> str:
    return iso(time.time())


def _met(met: Sighting) -> str:
    return f"met_{met}"


class Store(KernelReads):
    """The open database. Use `async with await Store.open(path)`."""

    instance = ""
    account_key = b""
    """The key for digests of logins."""
    met: frozenset[Sighting] = frozenset()
    """The parts of a sandbox that this instance has ever met, as on disk."""

    def __init__(
        self,
        path: str,
        writer: aiosqlite.Connection,
        reader: aiosqlite.Connection,
        now: Callable[[], str],
        steady: Callable[[], float] | None,
        parts: Sequence[TablePart[Any, PartWrites]],
    ) -> None:
        super().__init__(reader)
        self._path = path
        self.now = now
        """The current time in the format of every stored time."""
        self._writer = writer
        self._reader = reader
        self.work = WorkClock(now, steady)
        self.runs = RunClock(now, steady)
        self._committed = ChangeSignal()
        self.memory = SessionMemory(path, self.read, self.mail, now, self._committed)
        self.index, self.history = self.memory.index, self.memory.history
        self.log = WriteAheadLog(path, writer, reader)
        self.commits = Committer(
            path,
            writer,
            self.log,
            now,
            self.mail,
            self.memory,
            self.work,
            self.runs,
            parts,
            self._committed,
        )
        self.effects = self.commits.effects
        """Committed rows of the outbox, in order."""
        self.followers = self.commits.followers
        """Act in each transaction. Parts of the daemon register before the first one."""
        self._parts = parts
        self._part_reads = {part: part.reads(self) for part in parts}
        self.usage = next((r for r in self._part_reads.values() if isinstance(r, UsageReads)), UsageReads())

    @classmethod
    async def open(
        cls,
        path: str,
        now: Callable[[], str] = _utc_now,
        steady: Callable[[], float] | None = None,
        schemas: Sequence[Schema] | None = None,
        lately_s: float = SessionMemory.lately_s,
        unseen_s: float = SessionMemory.unseen_s,
    ) -> "Store":
        """Open, check and migrate the database. `now` gives the time of transactions; `steady`: as in WorkClock.

        `schemas`: the tables of capabilities, or None for all. `lately_s`, `unseen_s`: as in `SessionMemory`. Raises
        as `connect_migrated`.
        """
        schemas = known_schemas() if schemas is None else schemas
        writer, reader = await connect_migrated(path, schemas)
        parts = [part for part in known_parts() if part.schema is None or part.schema in schemas]
        store = cls(path, writer, reader, now, steady, parts)
        store.memory.lately_s, store.memory.unseen_s = lately_s, unseen_s
        await store._load()
        await asyncio.to_thread(make_room, path + "-wal")
        return store

    async def __aenter__(self) -> Self:
        self.commits.queue.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.commits.queue.end()
        self.history.close()
        await self._reader.close()
        with suppress(aiosqlite.Error):  # a full disk must not keep the daemon from ending
            await self._writer.execute_fetchall("PRAGMA wal_checkpoint(TRUNCATE)")
        await self._writer.close()

    async def _load(self) -> None:
        await self.memory.load()
        workspaces = await self.read(f"{WORKSPACES.select} ORDER BY slug")
        self.commits.workspaces = {row["slug"]: WORKSPACES.load(row) for row in workspaces}
        last = await self.read("SELECT seq FROM sqlite_sequence WHERE name = 'events'")
        self.commits.last_seq = int(last[0][0]) if last else 0
        await self._writer.execute(
            "INSERT OR IGNORE INTO meta (name, value) VALUES ('instance', ?)", (str(uuid.uuid4()),)
        )
        self.instance = (await self.read("SELECT value FROM meta WHERE name = 'instance'"))[0][0]
        key = (await self.read("SELECT value FROM meta WHERE name = 'account_key'"))[0][0]
        self.account_key = bytes.fromhex(key)
        await self._load_met()
        await self.mail.load(self._parts)
        self.memory.load_needed()
        for clock in (self.work, self.runs):
            clock.load(self.index.unfinished.values())

    async def _load_met(self) -> None:
        rows = await self.read("SELECT name FROM meta")
        met = {met for met in Sighting if any(row[0] == _met(met) for row in rows)}
        # Earlier versions of sm kept no such rows, but their sandboxed sessions.
        if await self.read("SELECT 1 FROM sessions WHERE effective_mode = 'sandboxed' LIMIT 1"):
            met = {*Sighting}
        self.met = frozenset(met)

    async def remember_met(self, met: Sighting) -> None:
        """Remember for ever that this instance has met a part of a sandbox. Raises StorageFull."""
        if met in self.met:
            return
        async with self.transaction() as tx:
            tx.write("INSERT OR IGNORE INTO meta (name, value) VALUES (?, ?)", (_met(met), tx.now))
        self.met |= {met}

    # Writing

    @asynccontextmanager
    async def transaction(
        self, caller: Caller | None = None, key: RequestKey | None = None
    ) -> AsyncIterator[Transaction]:
        """Run the body in a transaction; return once the transaction is on disk and readers see it.

        The body must await only the transaction, because all other writers wait for the body. `caller` and `key`
        identify a request that is carried out once: see `Transaction.replayed`. An exception or the cancellation of
        the body rolls back this transaction and no other. A caller cancelled after the body waits until the commit
        is done, and the commit is kept. Raises StorageFull, and UsageError for the key of another request.
        """
        try:
            async with self.commits.queue.turn() as tx:
                await tx.recall(caller, key)
                yield tx
        except aiosqlite.Error as error:
            raise refusal(self._path, error) from error

    async def wait_closed(self) -> None:
        """Wait for the writer to end, and raise its exception. No write succeeds after its end."""
        await self.commits.queue.wait_ended()

    async def prune(self, before: str) -> None:
        """Delete what no reader can reach any more since that time."""
        async with self.transaction() as tx:
            prune(tx.write, before)

    async def backup(self, name: str, keep: int) -> None:
        """Write a copy of the database in a thread, so that writers go on. Arguments and errors: as `write_backup`."""
        await asyncio.to_thread(write_backup, self._path, name, keep)

    # Reading

    def part(self, part: TablePart[R, Any]) -> R:
        """Reads the tables of a capability."""
        return cast(R, self._part_reads[part])

    def elapsed_s(self, session: Session) -> float:
        """Seconds of the session's work that is under way."""
        return self.work.elapsed_s(session, self.now())

    @property
    def sessions(self) -> KnownSessions:
        """Every session by id, as committed. Iterations yield those in memory, oldest first."""
        return self.index.sessions

    @property
    def workspaces(self) -> Mapping[str, Workspace]:
        """Every workspace by slug, including deleted ones, as committed. Never changed in place."""
        return self.commits.workspaces

    @property
    def last_seq(self) -> int:
        """The number of the last committed event."""
        return self.commits.last_seq

    @property
    def changes(self) -> int:
        """The number of changes, such as commits, after which readers in memory could see a difference."""
        return self._committed.count

    async def wait_until(self, condition: Callable[[], bool], within_s: float | None = None) -> bool:
        """Wait until `condition` holds, checked after every commit with changes. Returns False if that timed out."""
        return await self._committed.wait_until(condition, within_s)

    def trouble(self) -> str | None:
        """The reason why writes fail, or will soon fail."""
        disk = os.statvfs(os.path.dirname(self._path))
        if self.commits.is_full or disk.f_bavail * disk.f_frsize < _LOW_BYTES:
            return f"the disk is full: {self._path} cannot grow; sm postpones or refuses changes"
        return None
