"""Freezes and thaws the processes of paused sessions, in their own cgroups, and looks whether they are frozen."""

import asyncio
import logging
from collections.abc import Callable

from sm.core.models import Session
from sm.linux.session_cgroups import Freeze, SessionCgroup
from sm.monitor.observer import Observer

log = logging.getLogger(__name__)

_LOOKS_S = (0.002, 0.005, 0.02, 0.1, 0.3, 0.6, 1.0, 1.0)
"""A freeze takes some milliseconds; a process in a call to a disk that hangs does not freeze."""


class Freezer:
    """`cgroup_of`: the cgroup of a session by its id; None: this machine has none. It may block."""

    def __init__(self, cgroup_of: Callable[[str], SessionCgroup | None]) -> None:
        self._cgroup_of = cgroup_of

    async def freeze(self, session: Session) -> bool:
        """Freeze all processes of the session; False: they are not frozen, and run as before."""
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


class AgentSight:
    """Observations of paused agents: see `sm.sessions.pause.Sight`."""

    def __init__(self, freezer: Freezer, observer: Observer) -> None:
        self._freezer = freezer
        self._observer = observer

    async def is_frozen(self, session: Session) -> bool:
        return await self._freezer.is_frozen(session)

    async def works(self, session_id: str) -> bool | None:
        return await self._observer.works(session_id)

    def background_agents(self, session_id: str) -> int:
        return self._observer.background_agents(session_id)
