"""Commits transactions, those that wait at the same time together, and then shows them to readers."""

import asyncio
import functools
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

import aiosqlite

from sm.core.backoff import Backoff
from sm.core.effects import Effect
from sm.core.models import Workspace
from sm.errors import InternalError, SmError, StorageFull
from sm.store.batch import Changes
from sm.store.change_signal import ChangeSignal
from sm.store.connection import refusal
from sm.store.message_rows import MailReads
from sm.store.part import PartWrites, TablePart
from sm.store.session_memory import SessionMemory
from sm.store.transaction import SessionFollower, Transaction
from sm.store.work_clock import RunClock, WorkClock
from sm.store.write_ahead_log import WriteAheadLog
from sm.store.write_queue import WriteQueue, WriteTurn
from sm.store.writes import ALONE, SHARED

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0

P = ParamSpec("P")
T = TypeVar("T")


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


class Committer:
    """The only writer. `queue` gives callers their turns."""

    def __init__(
        self,
        path: str,
        writer: aiosqlite.Connection,
        log: WriteAheadLog,
        now: Callable[[], str],
        mail: MailReads,
        memory: SessionMemory,
        work: WorkClock,
        runs: RunClock,
        parts: Sequence[TablePart[Any, PartWrites]],
        committed: ChangeSignal,
    ) -> None:
        self._path = path
        self._writer = writer
        self._log = log
        self._now = now
        self._mail = mail
        self._memory = memory
        self._work = work
        self._runs = runs
        self._parts = parts
        self._committed = committed
        self.queue = WriteQueue(self._write_batch)
        self.followers: list[SessionFollower] = []
        self.effects: asyncio.Queue[Effect] = asyncio.Queue()
        self.workspaces: Mapping[str, Workspace] = {}
        self.last_seq = 0
        self.is_full = False
        """The last write failed because the disk is full. A commit without changes needs no room and proves nothing."""

    async def _write_batch(self, batch: list[WriteTurn]) -> None:
        async with self._log.writing:
            await self._commit(batch)
            await self._log.limit()

    async def _commit(self, batch: list[WriteTurn]) -> None:
        """Let the callers run their bodies one after the other, then commit."""
        changes = Changes(self._mail.open, self.workspaces)
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
            self.is_full |= isinstance(refused, StorageFull)
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
            self.is_full = False
            self._committed.changed()

    async def _execute(self, turn: WriteTurn, changes: Changes, *, shared: bool) -> bool:
        """Run the turn's body. Returns True to commit. Raises aiosqlite.Error when the batch is lost."""
        tx = Transaction(
            self._writer,
            SHARED if shared else ALONE,
            self._now(),
            changes.apply_to(self._memory.index.sessions),
            changes.apply_to(self._memory.index.unfinished),
            changes.removed,
            changes.workspaces,
            changes.open,
            self._mail.numbers,
            self._work,
            self._runs,
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
        """Show the committed changes to readers; True if they can see a difference."""
        changed = changes.workspaces is not self.workspaces or changes.open is not self._mail.open
        changed |= bool(changes.sessions or changes.events or changes.removed)
        self._memory.publish(changes)
        self.workspaces = changes.workspaces
        self._mail.publish(changes.open)
        if changes.events:
            self.last_seq = changes.events[-1].seq
        for effect in changes.effects:
            self.effects.put_nowait(effect)
        return changed
