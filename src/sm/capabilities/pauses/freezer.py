"""Freezes, stops and continues the processes of paused sessions, and looks whether they are frozen."""

import asyncio
import logging
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from sm.capabilities.pauses.state import Pauses
from sm.core.models import Process, Session
from sm.core.pause_states import Held
from sm.core.states import EventType, TrustLevel
from sm.core.wording import subject
from sm.linux.processes import process_tree, signal_process
from sm.linux.session_cgroups import Freeze, SessionCgroup
from sm.store import Effect, Store

log = logging.getLogger(__name__)

_LOOKS_S = (0.002, 0.005, 0.02, 0.1, 0.3, 0.6, 1.0, 1.0)
"""A freeze takes some milliseconds; a process in a call to a disk that hangs does not freeze."""

_PASSES_MAX = 10
"""A program that runs on may start processes for ever. A kill of the session waits for this effect."""


class Freezer:
    """`cgroup_of`: the cgroup of a session by its id, or None if this machine has none. It may block."""

    def __init__(self, cgroup_of: Callable[[str], SessionCgroup | None]) -> None:
        self._cgroup_of = cgroup_of

    async def freeze(self, session: Session) -> bool:
        """Freeze all processes of the session. Returns False if they are not frozen, and run as before."""
        cgroup = await self._cgroup(session)
        if cgroup is None:
            return False
        try:
            await asyncio.to_thread(cgroup.freeze)
        except OSError as error:
            log.warning("cannot freeze a session: %s", error, extra={"sm_session": session.id})
            return False
        for pause_s in _LOOKS_S:
            if await self.is_frozen(session):
                return True
            await asyncio.sleep(pause_s)
        if await self.is_frozen(session):
            return True
        log.warning("a session did not freeze", extra={"sm_session": session.id})
        await self.thaw(session)
        return False

    async def thaw(self, session: Session) -> None:
        """Let the session's processes run. Does nothing if they are not frozen."""
        cgroup = await asyncio.to_thread(self._cgroup_of, session.id)
        if cgroup is None:
            return
        try:
            if await asyncio.to_thread(cgroup.state) in (Freeze.FREEZING, Freeze.FROZEN):
                await asyncio.to_thread(cgroup.thaw)
        except OSError as error:
            log.warning("cannot thaw a session: %s", error, extra={"sm_session": session.id})

    async def is_frozen(self, session: Session) -> bool:
        """True if the kernel says that the agent's process, and all others in its cgroup, are frozen."""
        cgroup = await self._cgroup(session)
        return cgroup is not None and await asyncio.to_thread(cgroup.state) is Freeze.FROZEN

    async def _cgroup(self, session: Session) -> SessionCgroup | None:
        """The session's cgroup, if its agent is in it: an empty one is frozen at once, and says nothing."""
        process = session.process
        if process is None or session.exit is not None:
            return None

        def find() -> SessionCgroup | None:
            cgroup = self._cgroup_of(session.id)
            return cgroup if cgroup is not None and cgroup.has(process.pid) else None

        return await asyncio.to_thread(find)


class Suspension:
    """Stops the processes of paused sessions, and lets them go on. Its methods carry out effects."""

    def __init__(self, store: Store, pauses: Pauses, freezer: Freezer) -> None:
        self._store = store
        self._pauses = pauses
        self._freezer = freezer

    async def suspend(self, effect: Effect) -> None:
        """Stop the processes of a paused session, also those that they start meanwhile.

        They are frozen if that is possible. An agent with turns that does not stop otherwise (`force`) is ended.
        """
        session = self._store.sessions.get(effect.session_id)
        if session is None or session.paused is None:
            return
        if await self._freezer.freeze(session):
            async with self._store.transaction() as tx:
                now = tx.find(session.id)
                if now is not None:
                    await self._pauses.settle(tx, now, Held.FROZEN)
            return
        if effect.payload.get("force"):
            await self._end(session.id)
        else:
            await self._stop_all(effect)

    async def _end(self, session_id: str) -> None:
        """End the process of an agent that still spends, if it can go on in its conversation later."""
        async with self._store.transaction() as tx:
            session = tx.find(session_id)
            if session is None or session.paused is None:
                return
            why = await self._pauses.end_process(tx, session)
            if why is not None and not session.paused.told:
                text = f"{subject(session)} is paused, but works on: {why}; look at its terminal"
                await tx.event(EventType.WARNING, session, tx.now, text, {})
                await tx.update(session, paused=replace(session.paused, told=True))

    async def _stop_all(self, effect: Effect) -> None:
        stopped: set[int] = set()
        for _ in range(_PASSES_MAX):
            session = self._store.sessions.get(effect.session_id)
            if session is None or session.paused is None:
                return
            found = [p for p in await self._processes(session) if p.pid not in stopped]
            if not found:
                return
            for process in found:
                stopped.add(process.pid)
                with suppress(PermissionError):  # of another user (sudo)
                    signal_process(process, signal.SIGSTOP)

    async def go_on(self, effect: Effect) -> None:
        """Continue the processes of a session that is not paused any more."""
        session = self._store.sessions.get(effect.session_id)
        if session is None or session.paused is not None:
            return
        await self._freezer.thaw(session)
        for process in await self._processes(session):
            with suppress(PermissionError):
                signal_process(process, signal.SIGCONT)

    async def _processes(self, session: Session) -> list[Process]:
        own = session.process
        if own is None or session.exit is not None:
            return []
        # tmux continues the process group of a pane's own process as soon as that process stops.
        spared = {own.pid} if session.effective_mode is TrustLevel.DIRECT else set()
        return [p for p in await asyncio.to_thread(process_tree, own) if p.pid not in spared]
