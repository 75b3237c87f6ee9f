"""Carries out kills, and what follows the end of a process: archives, closed terminals, removals."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from sm.config import Cleanup
from sm.core.backoff import Backoff
from sm.core.dataclass import dataclass
from sm.core.effects import EffectKind
from sm.core.models import Process, Session
from sm.core.states import EventType
from sm.core.timestamps import epoch_s
from sm.core.wording import subject
from sm.errors import ExternalError, NoServer, StorageFull
from sm.linux.processes import is_alive
from sm.sandboxes.base import Sandbox
from sm.sessions.keepers import SessionKeeper
from sm.sessions.process_ends import ProcessEnds
from sm.sessions.spawn import process_of
from sm.state.losses import LossCause
from sm.store import Effect, Store
from sm.terminals.base import Pane, Terminals

log = logging.getLogger(__name__)

_ERASE_PAUSE_S = 1.0
_LONGEST_ERASE_PAUSE_S = 300.0
_EVENTS_LOOKED_AT = 50


@dataclass(frozen=True, slots=True, eq=False)
class EndEffects:
    """Every public method but `end_old_process` is an `EffectHandler` of `kernel`."""

    _store: Store
    _ends: ProcessEnds
    _terminals: Terminals
    _sandbox: Sandbox
    _keeper: SessionKeeper
    _cleanup: Cleanup

    async def kill(self, effect: Effect) -> str | None:
        session = self._store.sessions[effect.session_id]
        left: ExternalError | None = None
        if session.process is not None:
            try:
                await self._end(session, session.process, force=bool(effect.payload.get("force")))
            except ExternalError as error:
                if is_alive(session.process):
                    return error.message
                left = error  # the agent has ended, but not everything that it started
            # The watcher records the end. It recognises a kill by this effect, which must still be pending.
            sessions = self._store.sessions
            await self._store.wait_until(
                lambda: (
                    session.id not in sessions
                    or sessions[session.id].exit is not None
                    or sessions[session.id].process != session.process
                )
            )
        elif session.exit is None:
            await self._ends.terminal_lost(
                session.id, None, LossCause.TERMINAL, "the session had no process", process_gone=True
            )
        return None if left is None else left.message

    async def _end(self, session: Session, process: Process, *, force: bool) -> None:
        """End the process of a session. A forced kill, which waits behind this one, ends the grace time."""
        if force:
            await self._sandbox.end(session, process, force=True)
            return
        ending = asyncio.create_task(self._sandbox.end(session, process, force=False))
        forced = asyncio.create_task(
            self._store.wait_until(lambda: is_killed(self._store, session.id, force=True))
        )
        try:
            await asyncio.wait((ending, forced), return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                await self._sandbox.end(session, process, force=True)
            await ending
        finally:
            ending.cancel()
            forced.cancel()

    async def archive(self, effect: Effect) -> str | None:
        terminal, began_s = str(effect.payload["terminal"]), _began_s(effect.payload)
        try:
            return await self._keeper.keep(effect.session_id, terminal, began_s)
        except StorageFull as error:  # it is retried, so no dead letter tells of it
            await self._report_full_archive(effect, error.message)
            raise

    async def _report_full_archive(self, effect: Effect, reason: str) -> None:
        """Record that the archive has to wait: once, also if the daemon ends before the effect does."""
        newest = await self._store.events(
            sessions=[effect.session_id], type=EventType.WARNING, limit=_EVENTS_LOOKED_AT
        )
        if any(event.metadata.get("archive") == effect.id for event in newest):
            return
        async with self._store.transaction() as tx:
            session = tx.find(effect.session_id)
            if session is not None:
                await tx.event(
                    EventType.WARNING,
                    session,
                    tx.now,
                    f"{subject(session)} is not archived yet: {reason}",
                    {"archive": effect.id, "reason": reason},
                )

    async def release(self, effect: Effect) -> None:
        await self._terminals.release(str(effect.payload["terminal"]))

    async def close(self, effect: Effect) -> None:
        if effect.payload.get("archived"):
            is_kept = await self._keeper.is_kept(effect.session_id, _began_s(effect.payload))
        else:
            is_kept = True
        if is_kept:  # otherwise the terminal has the only copy of its output
            await self._terminals.close(str(effect.payload["terminal"]))

    async def remove(self, effect: Effect) -> None:
        await self._terminals.close(str(effect.payload["terminal"]))
        await self._sandbox.forget(effect.session_id)
        backoff, logged = Backoff(_ERASE_PAUSE_S, _LONGEST_ERASE_PAUSE_S), False
        while (reason := await self._keeper.erase(effect.session_id)) is not None:
            if not logged:
                log.warning("will try again: %s", reason, extra={"sm_session": effect.session_id})
            logged = True
            await asyncio.sleep(backoff.next_s())

    async def end_old_process(self, session: Session, payload: Mapping[str, Any]) -> None:
        """End what is left of a restored session's old process, and close its terminal.

        An orphan would act in the session's name and take its messages. The pid of the pane distinguishes the old
        terminal from the new one. With a new terminal this start is repeated, so all processes with the session's mark
        are new. Raises ExternalError.
        """
        pane = await pane_of(self._terminals, session)
        if pane is not None and pane.pid != payload.get("pane_pid"):
            return
        if payload.get("process") is not None:
            await self._sandbox.end(session, process_of(payload["process"]), force=False)
        if pane is not None:
            if self._cleanup.auto_archive_transcript and not await self._keeper.is_kept(
                session.id, _began_s(payload)
            ):
                with suppress(StorageFull):  # the next process matters more than the words of the old one
                    await self._keeper.keep(session.id, session.terminal, _began_s(payload))
            await self._terminals.close(session.terminal)


def is_killed(store: Store, session_id: str, *, force: bool = False) -> bool:
    """True while a kill is ordered. `force`: only a forced one counts."""
    effects = store.mail.open.effects.values()
    kills = (e for e in effects if e.session_id == session_id and e.kind == EffectKind.KILL)
    return any(not force or kill.payload.get("force") for kill in kills)


async def pane_of(terminals: Terminals, session: Session) -> Pane | None:
    try:
        return (await terminals.snapshot()).get(session.id)
    except NoServer:
        return None


def _began_s(payload: Mapping[str, Any]) -> float:
    """The start of the process in the terminal, in seconds since the epoch, or 0 if unknown."""
    return epoch_s(payload["began"]) if payload.get("began") else 0.0
