"""Restores the sandboxed sessions that the container engine or the machine cut off from their agents."""

import asyncio
import logging
import time
from collections import defaultdict, deque

from sm.config import Config, sandbox_for
from sm.core.backoff import Backoff
from sm.core.lifecycle import is_live
from sm.core.models import OPERATOR
from sm.errors import SandboxBusy, SandboxUnavailable, SmError
from sm.sessions.manager import Manager
from sm.sessions.restore import Restorer
from sm.store import Store

log = logging.getLogger(__name__)

_RESTORES_MAX = 3
_WITHIN_S = 600.0
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0


class CutOffSessions:
    """Restores sessions one by one, in the order of `add`, as far as `sandbox.on_engine_restart` says so.

    A session is restored at most 3 times in 10 minutes, and not later than 10 minutes after its agent ended: the engine
    may be away for some time.
    """

    def __init__(self, config: Config, store: Store, manager: Manager, restorer: Restorer) -> None:
        self._config = config
        self._store = store
        self._manager = manager
        self._restorer = restorer
        self._lost: asyncio.Queue[tuple[str, float]] = asyncio.Queue()
        self._restored_s: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_RESTORES_MAX))

    def add(self, session_id: str) -> None:
        """Restore the session, whose end is recorded, if the configuration says so."""
        session = self._store.sessions.get(session_id)
        if session is None or is_live(session.status):  # its own restart follows
            return
        settings = sandbox_for(self._config, self._store.workspaces.get(session.workspace or ""))
        if settings.on_engine_restart == "restore":
            self._lost.put_nowait((session_id, time.monotonic()))

    async def run(self) -> None:
        """Never returns."""
        async with asyncio.TaskGroup() as group:
            while True:
                session_id, lost_s = await self._lost.get()
                group.create_task(self._restore(session_id, lost_s))

    async def _restore(self, session_id: str, lost_s: float) -> None:
        restored_s = self._restored_s[session_id]
        if len(restored_s) == _RESTORES_MAX and lost_s - restored_s[0] < _WITHIN_S:
            await self._give_up(session_id, f"{_RESTORES_MAX} restores in {_WITHIN_S / 60:.0f} minutes")
            return
        restored_s.append(lost_s)
        backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        while True:
            try:
                await self._restorer.restore(OPERATOR, session_id, None, tree=False, go_on=True)
                return
            except (SandboxUnavailable, SandboxBusy) as error:
                if time.monotonic() - lost_s > _WITHIN_S:
                    await self._give_up(session_id, error.message)
                    return
            except SmError as error:  # somebody restored it, or it cannot be restored
                await self._give_up(session_id, error.message)
                return
            await asyncio.sleep(backoff.next_s())

    async def _give_up(self, session_id: str, reason: str) -> None:
        log.warning("did not restore a session: %s", reason, extra={"sm_session": session_id})
        await self._manager.warn(session_id, f"not restored after its terminal was lost: {reason}")
