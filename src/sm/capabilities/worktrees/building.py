"""Carries out the effect that makes the worktree of a new session, before the effect that starts its agent."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from sm.capabilities.worktrees.maker import TreeMaker
from sm.capabilities.worktrees.model import MadeTree
from sm.capabilities.worktrees.tables import PART, TreeRow, TreeState
from sm.core.effects import EffectKind
from sm.core.lifecycle import is_live
from sm.core.models import Signal
from sm.core.states import EventType, SignalKind, TrustLevel
from sm.core.statuses import Status
from sm.core.wording import subject
from sm.errors import InternalError, SmError, StorageFull
from sm.sessions.writable_paths import StartingSession
from sm.state.endings import Endings
from sm.store import Effect, Store, Transaction

log = logging.getLogger(__name__)

_TOLD_EVERY_S = 1.0


class TreeBuilder:
    def __init__(self, store: Store, endings: Endings, maker: TreeMaker, steady: Callable[[], float]) -> None:
        """`steady`: a clock that nobody sets, in seconds."""
        self._store = store
        self._endings = endings
        self._maker = maker
        self._steady = steady
        self._tasks = set[asyncio.Task[None]]()
        self.steps = dict[str, str]()
        """The steps of worktrees that are being made, by path."""

    async def build(self, effect: Effect) -> None:
        """Make the worktree, or fail the session. A session that is killed meanwhile gets none."""
        row = self._store.part(PART).of(effect.session_id)
        if row is None or row.state is TreeState.MADE:
            return
        making = asyncio.create_task(self._make(row))
        given_up = asyncio.create_task(self._store.wait_until(lambda: not self._is_wanted(row.session_id)))
        try:
            await asyncio.wait((making, given_up), return_when=asyncio.FIRST_COMPLETED)
            if making.done():
                await self._finish(row, await making)
            else:
                await _end(making)
                await self._give_up(row)
        except StorageFull:
            raise
        except SmError as error:
            await self._fail(row, error)
        except Exception:  # whatever it is: the start of the session waits for this effect
            log.exception("cannot make a worktree", extra={"sm_session": row.session_id})
            await self._fail(row, InternalError("the worktree was not made, see sm daemon logs"))
        finally:
            given_up.cancel()
            await _end(making)
            self.steps.pop(row.path, None)

    async def _make(self, row: TreeRow) -> MadeTree:
        again = row.state is TreeState.BEGUN
        if not again:
            async with self._store.transaction() as tx:
                tx.part(PART).put(replace(row, state=TreeState.BEGUN))
        told = -_TOLD_EVERY_S

        def report(step: str, percent: int | None) -> None:
            nonlocal told
            words = step if percent is None else f"{step} {percent}%"
            self.steps[row.path] = words
            if self._steady() - told < _TOLD_EVERY_S:
                return
            told = self._steady()
            task = asyncio.create_task(self._tell(row.session_id, f"its worktree is being made: {words}"))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        starting = self._starting(row)
        return await self._maker.make(row.plan, row.environment, report, again=again, starting=starting)

    def _starting(self, row: TreeRow) -> StartingSession | None:
        """The session of the worktree, if it is sandboxed."""
        session = self._store.sessions.get(row.session_id)
        if session is None or session.effective_mode is TrustLevel.DIRECT:
            return None
        return StartingSession(session.id, session.workspace, row.plan.planned_at)

    def _is_wanted(self, session_id: str) -> bool:
        session = self._store.sessions.get(session_id)
        kills = (
            e.kind == EffectKind.KILL
            for e in self._store.mail.open.effects.values()
            if e.session_id == session_id
        )
        return session is not None and is_live(session.status) and not any(kills)

    async def _tell(self, session_id: str, reason: str) -> None:
        with suppress(SmError):
            async with self._store.transaction() as tx:
                session = tx.find(session_id)
                if (
                    session is not None
                    and session.status is Status.SPAWNED
                    and tx.part(PART).awaited(session)
                ):
                    await tx.update(session, status_reason=reason)

    async def _finish(self, row: TreeRow, made: MadeTree) -> None:
        async with self._store.transaction() as tx:
            tx.part(PART).finish(row, made)
            session = tx.find(row.session_id)
            if session is not None:
                await tx.update(session, status_reason="its worktree is made")
                for note in made.notes:
                    text = f"{subject(session)} - worktree {row.path}: {note}"
                    await tx.event(EventType.WARNING, session, tx.now, text, {})
        await self._hand_over(row)

    async def _give_up(self, row: TreeRow) -> None:
        left = await self._remove(row)  # the process may have finished while it was told to stop
        async with self._store.transaction() as tx:
            await self._leave(tx, row, left)

    async def _remove(self, row: TreeRow) -> str | None:
        """Leave nothing of the worktree. Returns why something stays, None if nothing does."""
        left = None
        try:
            await self._maker.remove(row.plan, row.environment, self._starting(row))
        except SmError as error:
            left = error.message
        await self._hand_over(row)
        return left

    async def _leave(self, tx: Transaction, row: TreeRow, left: str | None) -> None:
        """Forget a worktree that is gone; keep the row of one that stays, so that people see it and can remove it."""
        session = tx.find(row.session_id)
        if left is None:
            tx.part(PART).erase(row)
            if session is not None:
                await tx.update(session, worktree=None, branch=None)
            return
        tx.part(PART).finish(row, MadeTree(row.plan.start, notes=[left]))
        if session is not None:
            text = f"{subject(session)} - worktree {row.path}: {left}"
            await tx.event(EventType.WARNING, session, tx.now, text, {})

    async def _hand_over(self, row: TreeRow) -> None:
        """End the claim of the process. A failure must not fail a session whose worktree is stored as made."""
        try:
            await self._maker.hand_over(row.plan)
        except OSError as error:
            extra = {"sm_session": row.session_id}
            log.warning("cannot end the claim of a worktree: %s", error.strerror, extra=extra)

    async def _fail(self, row: TreeRow, error: SmError) -> None:
        left = await self._remove(row)  # the process may have been killed
        reason = error.message if error.hint is None else f"{error.message}; hint: {error.hint}"
        signal = Signal(SignalKind.START_FAILED, EffectKind.START, reason, self._store.now())
        async with self._store.transaction() as tx:
            await self._leave(tx, row, left)
            session = tx.find(row.session_id)
            if session is not None and is_live(session.status):
                await self._endings.start_failed(tx, row.session_id, signal)


async def _end(task: asyncio.Task[MadeTree]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError, Exception):
        await task
