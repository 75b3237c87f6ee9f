"""Restores the sandboxed sessions that the container engine or the machine cut off from their agents."""

import asyncio
import logging
import time

from sm.core.backoff import Backoff
from sm.core.models import OPERATOR
from sm.core.timers import Timer, TimerKind
from sm.errors import SandboxBusy, SandboxUnavailable, SmError
from sm.sessions.restore import Restorer
from sm.state.losses import WITHIN_S, close_plan, is_cut_off, is_planned, warn_not_restored
from sm.store import Store

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
_LOOK_AGAIN_S = 60.0


class CutOffSessions:
    """Restores each session that has a plan (`state.losses`), also one of an earlier daemon.

    A session is restored at most 3 times in 10 minutes. The engine may be away: this daemon tries for 10 minutes.
    """

    def __init__(self, store: Store, restorer: Restorer) -> None:
        self._store = store
        self._restorer = restorer
        self._running: set[str] = set()

    async def run(self) -> None:
        """Never returns."""
        async with asyncio.TaskGroup() as group:
            while True:
                timers = self._store.mail.open.timers
                for timer in timers.values():
                    if is_planned(timer) and timer.subject not in self._running:
                        self._running.add(timer.subject)
                        group.create_task(self._restore(timer.subject))
                await self._store.wait_until(lambda: self._store.mail.open.timers is not timers, None)  # noqa: B023

    async def forget(self, timer: Timer) -> float | None:
        """A `TimerHandler`: drop the losses of a session after ten minutes, unless its restore is still tried."""
        if is_planned(timer):
            return _LOOK_AGAIN_S
        async with self._store.transaction() as tx:
            tx.timers.take(timer)
        return None

    async def _restore(self, session_id: str) -> None:
        """Carry out the plan of a session, and the one that a further loss makes meanwhile."""
        try:
            while (timer := self._plan(session_id)) is not None:
                try:
                    await self._carry_out(timer)
                except SmError as error:  # such as a full disk
                    log.warning(
                        "could not record a restore: %s", error.message, extra={"sm_session": session_id}
                    )
                    await asyncio.sleep(_LONGEST_PAUSE_S)
        finally:
            self._running.discard(session_id)

    def _plan(self, session_id: str) -> Timer | None:
        timer = self._store.mail.open.timers.get((session_id, TimerKind.CUT_OFF))
        return timer if timer is not None and is_planned(timer) else None

    async def _carry_out(self, timer: Timer) -> None:
        session_id, began_s = timer.subject, time.monotonic()
        backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        while self._plan(session_id) == timer:
            if not is_cut_off(self._store.sessions.get(session_id)):  # restored, killed, archived or removed
                await self._close(timer)
                return
            try:
                await self._restorer.restore(OPERATOR, session_id, None, tree=False, go_on=True)
            except (SandboxUnavailable, SandboxBusy) as error:
                if time.monotonic() - began_s > WITHIN_S:
                    await self._close(timer, error.message)
                    return
            except SmError as error:  # somebody restored it, or it cannot be restored
                await self._close(timer, error.message)
                return
            else:
                await self._close(timer)
                return
            await asyncio.sleep(backoff.next_s())

    async def _close(self, timer: Timer, reason: str | None = None) -> None:
        async with self._store.transaction() as tx:
            session = tx.find(timer.subject)
            if close_plan(tx, timer) and reason is not None and session is not None:
                await warn_not_restored(tx, session, reason)
        if reason is not None:
            log.warning("did not restore a session: %s", reason, extra={"sm_session": timer.subject})
