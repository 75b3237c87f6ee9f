"""Carries out the effect that makes the worktree of a new session, before the effect that starts its agent."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from sm.capabilities.worktrees.maker import TreeMaker
from sm.capabilities.worktrees.model import MadeTree
from sm.capabilities.worktrees.tables import PART, TreeRow, TreeState
from sm.capabilities.worktrees.tree_setup import SET_UP, TreeSetup, shown_commands
from sm.core.effects import EffectKind
from sm.core.lifecycle import is_live
from sm.core.models import Signal
from sm.core.states import EventType, SignalKind, TrustLevel
from sm.core.statuses import Status
from sm.core.wording import subject
from sm.errors import InternalError, NotPermitted, SmError, StorageFull, TerminalUnreachable
from sm.sessions.writable_paths import StartingSession
from sm.state.endings import Endings
from sm.store import Effect, Store, Transaction

log = logging.getLogger(__name__)

_TOLD_EVERY_S = 1.0


class TreeBuilder:
    def __init__(
        self,
        store: Store,
        endings: Endings,
        maker: TreeMaker,
        setup: TreeSetup,
        steady: Callable[[], float],
    ) -> None:
        """`steady`: a clock that nobody sets, in seconds."""
        self._store = store
        self._endings = endings
        self._maker = maker
        self._setup = setup
        self._steady = steady
        self._tasks = set[asyncio.Task[None]]()
        self.steps = dict[str, str]()
        """The steps of worktrees that are being made, by path."""

    async def build(self, effect: Effect) -> None:
        """Make the worktree and set it up, or fail the session. A session that is killed meanwhile gets none."""
        row = self._store.part(PART).of(effect.session_id)
        if row is None:
            return
        if row.state is TreeState.MADE:  # the daemon ended after the set-up
            await self._setup.close(row)
            await self._hand_over(row)
            return
        making = asyncio.create_task(self._make_and_set_up(row))
        given_up = asyncio.create_task(self._store.wait_until(lambda: not self._is_wanted(row.session_id)))
        try:
            await asyncio.wait((making, given_up), return_when=asyncio.FIRST_COMPLETED)
            if making.done():
                await making
            else:
                await _end(making)
                await self._give_up(self._now(row))
        except (StorageFull, TerminalUnreachable):
            raise  # the effect is repeated
        except SmError as error:
            await self._fail(self._now(row), error)
        except Exception:  # whatever it is: the start of the session waits for this effect
            log.exception("cannot make a worktree", extra={"sm_session": row.session_id})
            await self._fail(self._now(row), InternalError("the worktree was not made, see sm daemon logs"))
        finally:
            given_up.cancel()
            await _end(making)
            self.steps.pop(row.path, None)

    def _now(self, row: TreeRow) -> TreeRow:
        return self._store.part(PART).of(row.session_id) or row

    async def _make_and_set_up(self, row: TreeRow) -> None:
        if row.state is not TreeState.SETTING_UP:
            row = await self._made(row, await self._make(row))
        if row.state is TreeState.SETTING_UP:
            self.steps[row.path] = shown_commands(row.plan.commands)
            await self._tell(row.session_id, f"its worktree is {SET_UP}")
            await self._setup.run(row)
            row = replace(row, state=TreeState.MADE, environment={})
            async with self._store.transaction() as tx:
                tx.part(PART).put(row)
                session = tx.find(row.session_id)
                if session is not None:
                    await tx.update(session, status_reason="its worktree is set up")
            await self._setup.close(row)
        await self._hand_over(row)

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

    async def _made(self, row: TreeRow, made: MadeTree) -> TreeRow:
        """Record that the worktree was made, and how it is set up."""
        session = self._store.sessions.get(row.session_id)
        notes = made.notes
        if session is not None:
            commands, more = await self._setup.choose(session, row.plan)
            made = replace(made, notes=(notes := [*notes, *more]))
            row = replace(row, plan=replace(row.plan, commands=commands))
        has_setup = bool(row.plan.commands.setup)
        state, environment = (TreeState.SETTING_UP, row.environment) if has_setup else (TreeState.MADE, {})
        row = replace(row, state=state, made=made, environment=environment)
        async with self._store.transaction() as tx:
            tx.part(PART).put(row)
            session = tx.find(row.session_id)
            if session is not None:
                await tx.update(session, status_reason="its worktree is made")
                for note in notes:
                    text = f"{subject(session)} - worktree {row.path}: {note}"
                    await tx.event(EventType.WARNING, session, tx.now, text, {})
        return row

    async def _give_up(self, row: TreeRow) -> None:
        left = None
        if row.state is TreeState.SETTING_UP:
            try:
                await self._setup.stop(row)
            except TerminalUnreachable:
                raise
            except SmError as error:
                left = error.message
        # The process that makes it may have finished while it was told to stop.
        left = left or await self._remove(row)
        async with self._store.transaction() as tx:
            await self._leave(tx, row, left)

    async def _leave(self, tx: Transaction, row: TreeRow, left: str | None) -> None:
        """Forget a worktree that is gone; keep the row of one that stays, so that people see it and can remove it."""
        session = tx.find(row.session_id)
        if left is None:
            tx.part(PART).erase(row)
            if session is not None:
                await tx.update(session, worktree=None, branch=None)
            return
        made = row.made or MadeTree(row.plan.start)
        made = replace(made, notes=[*made.notes, left], is_set_up=not _is_set_up(row))
        tx.part(PART).put(replace(row, state=TreeState.MADE, made=made, environment={}))
        if session is not None:
            await tx.event(EventType.WARNING, session, tx.now, f"{subject(session)} - {left}", {})

    async def _remove(self, row: TreeRow) -> str | None:
        """Leave nothing of the worktree. Returns why something stays, None if nothing does."""
        left = None
        # In the set-up of a sandboxed session, programs of its container could write there.
        starting = None if _is_set_up(row) else self._starting(row)
        try:
            await self._maker.remove(row.plan, row.environment, starting)
        except NotPermitted as error:
            left = f"kept the worktree {row.path}: {error.message}"
        except SmError as error:
            left = error.message
        await self._hand_over(row)
        return left

    async def _hand_over(self, row: TreeRow) -> None:
        """End the claim of the process. A failure must not fail a session whose worktree is stored as made."""
        try:
            await self._maker.hand_over(row.plan)
        except OSError as error:
            extra = {"sm_session": row.session_id}
            log.warning("cannot end the claim of a worktree: %s", error.strerror, extra=extra)

    async def _fail(self, row: TreeRow, error: SmError) -> None:
        left = await self._remove(row)  # the process may have been killed
        message = error.message
        if left is not None and _is_set_up(row):
            message = f"{message}; {left}"
        reason = message if error.hint is None else f"{message}; hint: {error.hint}"
        signal = Signal(SignalKind.START_FAILED, EffectKind.START, reason, self._store.now())
        async with self._store.transaction() as tx:
            await self._leave(tx, row, left)
            session = tx.find(row.session_id)
            if session is not None and is_live(session.status):
                await self._endings.start_failed(tx, row.session_id, signal)


def _is_set_up(row: TreeRow) -> bool:
    """True if the set-up of the worktree may have begun."""
    return row.state in (TreeState.SETTING_UP, TreeState.MADE) and bool(row.plan.commands.setup)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError, Exception):
        await task
