"""The database: one writer, grouped commits, a mirror of the sessions in memory.

Every change is made in `async with store.transaction() as tx`. Transactions run one after the other. Transactions that
wait at the same time share one commit and its fsync. Readers see only committed data.
"""

import asyncio
import functools
import logging
import os
import time
import uuid
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, cast

import aiosqlite

from sm.core.attention import UNSEEN as UNSEEN_GROUPS
from sm.core.attention import attention
from sm.core.backoff import Backoff
from sm.core.effects import Effect, EffectKind
from sm.core.lifecycle import is_ended
from sm.core.models import Caller, Checkpoint, Event, Launch, RequestKey, Session, Workspace
from sm.core.session_index import KnownSessions, SessionIndex, is_unfinished
from sm.core.sightings import Sighting
from sm.core.states import EventType
from sm.core.timeline import STATUS_EVENTS, StatusEvent
from sm.core.timestamps import iso, later
from sm.errors import InternalError, NotFound, SmError, StorageFull
from sm.operations.list_operations import SEE_SESSIONS
from sm.store.backup import write_backup
from sm.store.batch import Changes
from sm.store.change_signal import ChangeSignal
from sm.store.connection import connect, inspect, make_room, refusal, rows
from sm.store.history import READ_OF_KEPT, SELECT, UNFINISHED, UNSEEN, History, loaded
from sm.store.measures import MeasureReads
from sm.store.message_rows import MailReads
from sm.store.migrations import Schema, migrate
from sm.store.part import PartWrites, TablePart, known_parts, known_schemas
from sm.store.records import RecordReads
from sm.store.retention import prune
from sm.store.rows import (
    CHECKPOINTS,
    EVENTS,
    OUTBOX,
    SHELL_LIMITS,
    TOLD,
    WORKSPACES,
    decode_json,
    encode_json,
    launch_from_json,
)
from sm.store.sums import SumReads
from sm.store.telegram_preferences import PreferenceReads
from sm.store.telegram_rows import TelegramReads
from sm.store.transaction import SessionFollower, Transaction
from sm.store.turn_ends import TurnEndReads
from sm.store.usage_counting import UsageReads
from sm.store.work_clock import RunClock, WorkClock
from sm.store.writable_paths import WritablePathReads
from sm.store.write_ahead_log import WriteAheadLog
from sm.store.write_queue import WriteQueue, WriteTurn
from sm.store.writes import ALONE, SHARED

log = logging.getLogger(__name__)

_ENDED_LATELY_S = 86_400.0
_UNSEEN_S = 7 * 86_400.0
_KEPT = f"{SELECT} WHERE removed = 0 AND ({UNFINISHED} OR status_at >= ? OR (status_at >= ? AND {UNSEEN}))"
_KEPT += " ORDER BY created_at, id"
"""The sessions that are in memory, with those that unfinished work needs, and the ancestors of all."""
_LOADED_AT_ONCE = 50
_LOW_BYTES = 1024 * 1024
_RECORDED_WITHIN_S = 60.0
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


def _utc_now() -> str:
    return iso(time.time())


def _is_recent(session: Session, lately: str, unseen: str) -> bool:
    """As `_KEPT`."""
    if is_unfinished(session) or not is_ended(session.status) or session.status_at >= lately:
        return True
    return session.status_at >= unseen and attention(session, (), unseen) in UNSEEN_GROUPS


def _met(met: Sighting) -> str:
    return f"met_{met}"


def durable(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Decorator: retry a function while the disk is full. For facts that must not be dropped.

    The function must have no effect except its transaction.
    """

    @functools.wraps(function)
    async def repeated(*args: P.args, **kwargs: P.kwargs) -> T:
        backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        while True:
            try:
                return await function(*args, **kwargs)
            except StorageFull as error:
                log.warning("postponed a write: %s", error.message)
            await asyncio.sleep(backoff.next_s())

    return repeated


class _KernelReads:
    """Reads of the tables that every instance has."""

    def __init__(self, reader: aiosqlite.Connection) -> None:
        self.read = functools.partial(rows, reader)
        self.mail = MailReads(self.read)
        self.measures = MeasureReads(self.read)
        self.turn_ends = TurnEndReads(self.read)
        self.records = RecordReads(self.read)
        self.writable = WritablePathReads(self.read)
        self.sums = SumReads(self.read)
        self.telegram = TelegramReads(self.read)
        self.chat_preferences = PreferenceReads(self.read)


class Store(_KernelReads):
    """The open database. Use `async with await Store.open(path)`."""

    instance = ""
    account_key = b""
    """The key for digests of logins."""
    last_seq = 0
    changes = 0
    """The number of changes, such as commits, after which readers in memory could see a difference."""
    unseen_s = _UNSEEN_S
    """For how long sessions that the operator has not seen stay in memory after their end."""
    met: frozenset[Sighting] = frozenset()
    """The parts of a sandbox that this instance has ever met, as on disk."""
    _is_full = False
    """The last write failed because the disk is full. A commit without changes needs no room and proves nothing."""

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
        self._queue = WriteQueue(self._write_batch)
        self._writing = asyncio.Lock()
        self.log = WriteAheadLog(path, writer, reader, self._writing)
        self._committed = ChangeSignal()
        self.index = SessionIndex()
        """The sessions as committed."""
        self._by_token: dict[str, str] = {}
        self._followers_of_removals: list[set[str]] = []
        self._followers_of_leaving: list[set[str]] = []
        self._workspaces: Mapping[str, Workspace] = {}
        self.history = History(path, self.read, self.index.sessions)
        self.index.sessions.past = self.history
        self._parts = parts
        self.followers: list[SessionFollower] = []
        """Act in each transaction. Parts of the daemon register before the first one."""
        self._part_reads = {part: part.reads(self) for part in self._parts}
        self.usage = next((r for r in self._part_reads.values() if isinstance(r, UsageReads)), UsageReads())
        self.effects: asyncio.Queue[Effect] = asyncio.Queue()
        """Committed rows of the outbox, in order."""

    @classmethod
    async def open(
        cls,
        path: str,
        now: Callable[[], str] = _utc_now,
        steady: Callable[[], float] | None = None,
        schemas: Sequence[Schema] | None = None,
        unseen_s: float = _UNSEEN_S,
    ) -> "Store":
        """Open, check and migrate the database. `now` gives the time of transactions; `steady`: as in WorkClock.

        `schemas`: the tables of capabilities, or None for all. `unseen_s`: for how long sessions that the operator has
        not seen stay in memory. Raises StorageFull, and DatabaseRefused for a database that is damaged or of another
        version (neither is changed).
        """
        schemas = known_schemas() if schemas is None else schemas
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
            reader = await connect(path)
        except aiosqlite.Error as error:
            await writer.close()
            raise refusal(path, error) from error
        except BaseException:
            await writer.close()
            raise
        parts = [part for part in known_parts() if part.schema is None or part.schema in schemas]
        store = cls(path, writer, reader, now, steady, parts)
        store.unseen_s = unseen_s
        await store._load()
        await asyncio.to_thread(make_room, path + "-wal")
        return store

    async def __aenter__(self) -> Self:
        self._queue.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._queue.end()
        self.history.close()
        await self._reader.close()
        with suppress(aiosqlite.Error):  # a full disk must not keep the daemon from ending
            await self._writer.execute_fetchall("PRAGMA wal_checkpoint(TRUNCATE)")
        await self._writer.close()

    async def _load(self) -> None:
        for row in await self.read(_KEPT, self._limits()):
            self._load_session(loaded(row))
        workspaces = await self.read(f"{WORKSPACES.select} ORDER BY slug")
        self._workspaces = {row["slug"]: WORKSPACES.load(row) for row in workspaces}
        last = await self.read("SELECT seq FROM sqlite_sequence WHERE name = 'events'")
        self.last_seq = int(last[0][0]) if last else 0
        await self._writer.execute(
            "INSERT OR IGNORE INTO meta (name, value) VALUES ('instance', ?)", (str(uuid.uuid4()),)
        )
        self.instance = (await self.read("SELECT value FROM meta WHERE name = 'instance'"))[0][0]
        key = (await self.read("SELECT value FROM meta WHERE name = 'account_key'"))[0][0]
        self.account_key = bytes.fromhex(key)
        await self._load_met()
        await self.mail.load(self._parts)
        self._load_needed(self.index.sessions)
        for clock in (self.work, self.runs):
            clock.load(self.index.unfinished.values())

    def _load_session(self, session: Session) -> None:
        self.index.load(session)
        if session.token_hash is not None:
            self._by_token[session.token_hash] = session.id

    def _load_needed(self, session_ids: Iterable[str]) -> None:
        for session_id in self._needed(session_ids):
            if self.index.sessions.is_kept(session_id):
                continue
            if (session := self.history.find(session_id)) is not None:
                self._load_session(session)
        self.history.changed()

    def _limits(self) -> tuple[str, str]:
        """The parameters of `_KEPT`."""
        now = self.now()
        return later(now, -_ENDED_LATELY_S), later(now, -self.unseen_s)

    async def keep_unseen(self, unseen_s: float) -> None:
        """Set `unseen_s`, and read the sessions that belong into memory because of that.

        `forget_old` removes those that do not any more.
        """
        if unseen_s == self.unseen_s:
            return
        self.unseen_s = unseen_s
        ids = [row["id"] for row in await self.read(_KEPT, self._limits())]
        for begin in range(0, len(ids), _LOADED_AT_ONCE):
            self._load_needed(ids[begin : begin + _LOADED_AT_ONCE])
            self._show_change()
            await asyncio.sleep(0)

    def _show_change(self) -> None:
        """Tell those who wait for a change."""
        self.changes += 1
        self._committed.changed()

    def _needed(self, kept: Iterable[str]) -> set[str]:
        """The sessions that unfinished work names, and the ancestors of these and of the `kept` ones."""
        open, sessions = self.mail.open, self.index.sessions
        # Not the senders of messages and the sessions of notices: an operator may leave these unread for years.
        named = {m.session_id for m in open.messages.values()}
        named |= {r.session_id for r in open.requests.values()} | {
            e.session_id for e in open.effects.values()
        }
        named |= {subject for subject, _ in open.timers}
        named |= {
            session_id for part, rows in open.parts.items() if part.keeps_sessions for session_id in rows
        }
        found, needed = [*kept, *filter(None, named)], set[str]()
        while found:
            session = sessions.get(session_id := found.pop())
            if session is None or session_id in needed:
                continue
            needed.add(session_id)
            found += [above for above in (session.parent_id, session.bound_to) if above is not None]
        return needed

    def forget_old(self) -> list[str]:
        """Remove from memory the sessions that are no longer needed there, and return their ids."""
        lately, unseen = self._limits()
        sessions = self.index.sessions
        recent = [s.id for s in sessions.values() if _is_recent(s, lately, unseen)]
        needed = self._needed(recent)
        old = [session_id for session_id in sessions if session_id not in needed]
        for session_id in old:
            gone = self.index.forget(session_id)
            if gone is not None:
                self._by_token.pop(gone.token_hash or "", None)
        for follower in self._followers_of_leaving:
            follower |= {*old}
        if old:
            self.history.grew()
            self._show_change()
        return old

    async def _load_met(self) -> None:
        rows = await self.read("SELECT name FROM meta")
        met = {met for met in Sighting if any(row[0] == _met(met) for row in rows)}
        # Earlier versions of sm kept no such rows, but their sandboxed sessions.
        if await self.read("SELECT 1 FROM sessions WHERE effective_mode = 'sandboxed' LIMIT 1"):
            met = {*Sighting}
        self.met = frozenset(met)

    # Writing

    async def remember_met(self, met: Sighting) -> None:
        """Remember for ever that this instance has met a part of a sandbox. Raises StorageFull."""
        if met in self.met:
            return
        async with self.transaction() as tx:
            tx.write("INSERT OR IGNORE INTO meta (name, value) VALUES (?, ?)", (_met(met), tx.now))
        self.met |= {met}

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
            async with self._queue.turn() as tx:
                await tx.recall(caller, key)
                yield tx
        except aiosqlite.Error as error:
            raise refusal(self._path, error) from error

    async def wait_closed(self) -> None:
        """Wait for the writer to end, and raise its exception. No write succeeds after its end."""
        await self._queue.wait_ended()

    async def _write_batch(self, batch: list[WriteTurn]) -> None:
        async with self._writing:
            await self._commit(batch)
            await self.log.limit()

    async def _commit(self, batch: list[WriteTurn]) -> None:
        """Let the callers run their bodies one after the other, then commit."""
        changes = Changes(self.mail.open, self._workspaces)
        shared = len(batch) > 1
        try:
            if shared:
                await self._writer.execute("BEGIN IMMEDIATE")
            done = [
                turn
                for turn in batch
                if not turn.cancelled and await self._execute(turn, changes, shared=shared)
            ]
            if shared:
                await self._writer.execute("COMMIT")
        except aiosqlite.Error as error:
            if self._writer.in_transaction:
                await self._writer.execute("ROLLBACK")
            refused = refusal(self._path, error)
            self._is_full |= isinstance(refused, StorageFull)
            for turn in batch:
                turn.fail(refused)
            return
        except BaseException:
            for turn in batch:
                turn.fail(InternalError("the database is closed"))
            raise
        changed = self._publish(changes)
        for turn in done:
            turn.succeed()
        if changed:
            self._is_full = False
            self._show_change()

    async def _execute(self, turn: WriteTurn, changes: Changes, *, shared: bool) -> bool:
        """Run the turn's body. Returns True to commit. Raises aiosqlite.Error when the batch is lost."""
        tx = Transaction(
            self._writer,
            SHARED if shared else ALONE,
            self.now(),
            changes.apply_to(self.index.sessions),
            changes.apply_to(self.index.unfinished),
            changes.removed,
            changes.workspaces,
            changes.open,
            self.mail.numbers,
            self.work,
            self.runs,
            self._parts,
            self.followers,
        )
        turn.granted.set_result(tx)
        keep = await turn.handed_back
        if keep:
            try:
                await tx.end()
            except (aiosqlite.IntegrityError, SmError) as error:  # affects this transaction only
                turn.fail(refusal(self._path, error) if isinstance(error, aiosqlite.Error) else error)
                keep = False
        if keep:
            changes.add(tx)
        else:
            await tx.undo()
        return keep

    def _publish(self, changes: Changes) -> bool:
        """Apply committed changes to the mirror in memory; True if readers can see a difference."""
        changed = changes.workspaces is not self._workspaces or changes.open is not self.mail.open
        changed |= bool(changes.sessions or changes.events or changes.removed)
        kept = (session for session in changes.sessions.values() if session.id not in changes.inserted)
        if changes.removed or any(self._changes_history(session) for session in kept):
            self.history.changed()
        elif changes.inserted:
            names = {changes.sessions[session_id].friendly_name for session_id in changes.inserted}
            self.history.follow_new(name for name in names if name is not None)
        for session in changes.sessions.values():
            self._put(session)
        self._workspaces = changes.workspaces
        for follower in self._followers_of_removals:
            follower |= changes.removed
        for session_id in changes.removed:
            gone = self.index.remove(session_id)
            if gone is not None:
                self._by_token.pop(gone.token_hash or "", None)
        for name in changes.left_names:
            self.index.share(name)
        self.mail.publish(changes.open)
        if changes.events:
            self.last_seq = changes.events[-1].seq
        for effect in changes.effects:
            self.effects.put_nowait(effect)
        return changed

    def _changes_history(self, session: Session) -> bool:
        """True if the session was in the history, or changes what was read there (`READ_OF_KEPT`)."""
        before = self.index.sessions.kept(session.id)
        return before is None or READ_OF_KEPT(before) != READ_OF_KEPT(session)

    def follow_removals(self) -> set[str]:
        """A set that gets the id of each session that is removed. Its owner removes the ids."""
        removed: set[str] = set()
        self._followers_of_removals.append(removed)
        return removed

    def follow_leaving(self) -> set[str]:
        """A set that gets the id of each session that is no longer kept in memory. Its owner removes the ids."""
        left: set[str] = set()
        self._followers_of_leaving.append(left)
        return left

    # Reading

    def _put(self, session: Session) -> None:
        before = self.index.sessions.kept(session.id)
        self.index.put(session)
        if before is None or before.token_hash != session.token_hash:
            if before is not None:
                self._by_token.pop(before.token_hash or "", None)
            if session.token_hash is not None:
                self._by_token[session.token_hash] = session.id

    def part(self, part: TablePart[R, Any]) -> R:
        """Reads the tables of a capability."""
        return cast(R, self._part_reads[part])

    def elapsed_s(self, session: Session) -> float:
        """Seconds of the session's work that is under way."""
        return self.work.elapsed_s(session, self.now())

    def session_of_token(self, token_hash: str) -> Session | None:
        """The session in memory, live or ended, that owns the token with this hash, as committed."""
        return self.index.sessions.get(self._by_token.get(token_hash, ""))

    @property
    def sessions(self) -> KnownSessions:
        """Every session by id, as committed. Iterations yield those in memory (`_KEPT`), oldest first."""
        return self.index.sessions

    @property
    def workspaces(self) -> Mapping[str, Workspace]:
        """Every workspace by slug, including deleted ones, as committed. Never changed in place."""
        return self._workspaces

    async def wait_until(self, condition: Callable[[], bool], within_s: float | None = None) -> bool:
        """Wait until `condition` holds, checked after every commit with changes. Returns False if that timed out."""
        return await self._committed.wait_until(condition, within_s)

    async def events(
        self,
        *,
        sessions: Collection[str] | None,
        type: str | None = None,
        since: int | None = None,
        since_time: str | None = None,
        limit: int = 50,
    ) -> list[Event]:
        """Read events in order: the newest `limit`, or the first `limit` after a seq or at or after a time.

        Events are recorded up to a minute after their time.
        """
        where, values = ["1"], list[Any]()
        if sessions is not None:
            where.append("session_id IN (SELECT value FROM json_each(?))")
            values.append(encode_json(list(sessions)))
        if type is not None:
            where.append("type = ?")
            values.append(type)
        if since is not None:
            where.append("seq > ?")
            values.append(since)
        if since_time is not None:
            where.append("seq >= ? AND timestamp >= ?")
            values += [await self._seq_at(later(since_time, -_RECORDED_WITHIN_S)), since_time]
        newest = since is None and since_time is None
        order = "DESC" if newest else "ASC"
        rows = await self.read(
            f"{EVENTS.select} WHERE {' AND '.join(where)} ORDER BY seq {order} LIMIT ?", (*values, limit)
        )
        return [EVENTS.load(row) for row in (reversed(rows) if newest else rows)]

    async def status_events(
        self, session_ids: Collection[str], since: str, limit: int
    ) -> tuple[list[StatusEvent], bool]:
        """The events of moves after that time, with the last one of each session before, and True if `limit` cut them.

        In order. Events are recorded up to a minute after their time.
        """
        ids, types = encode_json(list(session_ids)), encode_json(list(STATUS_EVENTS))
        first = await self._seq_at(later(since, -_RECORDED_WITHIN_S))
        what = "e.session_id, e.type, e.timestamp, json_extract(e.metadata, '$.source') AS source,"
        what += " json_extract(e.metadata, '$.reason') AS reason"
        chosen = "type IN (SELECT value FROM json_each(?))"
        newest = await self.read(
            f"SELECT e.seq, {what} FROM events AS e WHERE seq >= ? AND {chosen}"  # noqa: S608 - constant texts
            " AND session_id IN (SELECT value FROM json_each(?)) ORDER BY seq DESC LIMIT ?",
            (first, types, ids, limit + 1),
        )
        kept = newest[:limit]
        if len(newest) > limit:
            first = newest[limit]["seq"] + 1
        before = await self.read(
            f"SELECT {what} FROM json_each(?) AS s JOIN events AS e ON e.seq = (SELECT seq FROM events"  # noqa: S608
            f" WHERE session_id = s.value AND seq < ? AND {chosen} ORDER BY seq DESC LIMIT 1)",
            (ids, first, types),
        )
        rows = [*before, *reversed(kept)]
        events = [
            StatusEvent(r["session_id"], EventType(r["type"]), r["timestamp"], r["source"], r["reason"])
            for r in rows
        ]
        return events, len(newest) > limit

    async def _seq_at(self, at: str) -> int:
        """The seq of the first event at or after that time, found by bisection: events are almost in order of time."""
        low, high = 1, self.last_seq + 1
        while low < high:
            middle = (low + high) // 2
            rows = await self.read(
                "SELECT seq, timestamp FROM events WHERE seq >= ? ORDER BY seq LIMIT 1", (middle,)
            )
            if rows and rows[0]["timestamp"] < at:
                low = rows[0]["seq"] + 1
            else:
                high = middle
        return low

    async def removed_endings(self, since: str) -> int:
        """The number of sessions that ended after that time and were removed."""
        rows = await self.read(
            "SELECT count(*) FROM sessions WHERE removed = 1 AND completed_at >= ?", (since,)
        )
        return int(rows[0][0])

    async def checkpoints(self, session_id: str, limit: int) -> list[Checkpoint]:
        """The newest `limit` checkpoints of the session, oldest first."""
        rows = await self.read(
            f"{CHECKPOINTS.select} WHERE session_id = ? ORDER BY id DESC LIMIT ?", (session_id, limit)
        )
        return [CHECKPOINTS.load(row) for row in reversed(rows)]

    async def launch(self, session_id: str) -> Launch:
        rows = await self.read("SELECT launch FROM sessions WHERE id = ? AND removed = 0", (session_id,))
        if not rows:
            raise NotFound(f"no such session: {session_id}", SEE_SESSIONS)
        return launch_from_json(rows[0][0])

    async def newest_launch(self, created_by: str) -> Launch | None:
        """The launch of the newest session that this caller has started."""
        rows = await self.read(
            "SELECT launch FROM sessions WHERE created_by = ? AND removed = 0 ORDER BY created_at DESC LIMIT 1",
            (created_by,),
        )
        return launch_from_json(rows[0][0]) if rows else None

    async def shell_limits(self) -> dict[str, int]:
        """The umask and the soft limits of the shell of the last spawn; empty before the first one."""
        rows = await self.read("SELECT value FROM meta WHERE name = ?", (SHELL_LIMITS,))
        return decode_json(rows[0][0]) if rows else {}

    async def was_told(self, occasion: str) -> bool:
        """True if `Transaction.put_told` has remembered this announcement."""
        return bool(await self.read("SELECT value FROM meta WHERE name = ?", (TOLD + occasion,)))

    async def spawn_prompt(self, session_id: str) -> str | None:
        rows = await self.read("SELECT spawn_prompt FROM sessions WHERE id = ?", (session_id,))
        return rows[0][0] if rows else None

    async def effects_in(self, state: str) -> list[Effect]:
        """Rows of the outbox in `state`, in order, except calls to Telegram. New rows arrive in `effects`."""
        rows = await self.read(
            f"{OUTBOX.select} WHERE state = ? AND kind <> 'telegram' ORDER BY id", (state,)
        )
        return [OUTBOX.load(row) for row in rows]

    async def last_failure(self, kind: EffectKind) -> tuple[str, str] | None:
        """(session id, reason) of the newest finished effect of this kind, if it failed."""
        rows = await self.read(
            "SELECT session_id, reason FROM outbox WHERE kind = ? AND state IN ('done', 'dead')"
            " ORDER BY id DESC LIMIT 1",
            (kind,),
        )
        return next(((session_id, reason) for session_id, reason in rows if reason is not None), None)

    def trouble(self) -> str | None:
        """The reason why writes fail, or will soon fail."""
        disk = os.statvfs(os.path.dirname(self._path))
        if self._is_full or disk.f_bavail * disk.f_frsize < _LOW_BYTES:
            return f"the disk is full: {self._path} cannot grow; sm postpones or refuses changes"
        return None

    async def dead_letters(self, sessions: Collection[str] | None = None) -> int:
        """Count the failed effects and the undelivered messages of these sessions (None for all)."""
        ids = None if sessions is None else encode_json(list(sessions))
        rows = await self.read(
            "SELECT count(*) FROM outbox WHERE state = 'dead'"
            " AND (?1 IS NULL OR session_id IN (SELECT value FROM json_each(?1)))",
            (ids,),
        )
        return int(rows[0][0]) + await self.mail.lost(sessions)

    # Upkeep

    async def prune(self, before: str) -> None:
        """Delete what no reader can reach any more since that time."""
        async with self.transaction() as tx:
            prune(tx.write, before)

    async def backup(self, name: str, keep: int) -> None:
        """As `write_backup`, without blocking writers."""
        await asyncio.to_thread(write_backup, self._path, name, keep)
