"""Follows the ends of processes and the timers of pauses, and looks at paused agents."""

import logging
from collections.abc import Mapping

from sm.capabilities.pauses.freezer import Freezer
from sm.capabilities.pauses.rules import PauseTimer, Seen, after_ordered_end
from sm.capabilities.pauses.state import Pauses, look_first, record_held
from sm.core.effects import EffectKind
from sm.core.messages import SM_ITSELF
from sm.core.models import Exit, Session, is_pausing
from sm.core.next_process import OrderedEnd, Restart
from sm.core.pause_states import Held
from sm.core.statuses import Status
from sm.core.timers import Timer
from sm.errors import StorageFull
from sm.monitor import Observer
from sm.providers.base import Provider
from sm.state.next_process import EndRule
from sm.state.part_holds import leave_to_hold
from sm.state.pause_orders import end_by_pause, order_resume
from sm.store import Store, Transaction

log = logging.getLogger(__name__)


class OrderedEnds(EndRule):
    """Lets a session go on whose process its pause has ended."""

    def after_order(self, tx: Transaction, session: Session, exit: Exit) -> OrderedEnd | None:
        return None if end_by_pause(tx, session.id) is None else after_ordered_end(session, exit, tx.now)

    async def follow_plan(self, tx: Transaction, session: Session, restart: Restart) -> None:
        order = end_by_pause(tx, session.id)
        await record_held(tx, session, Held.ENDED, () if order is None else order.payload.get("spends", ()))


class AgentSight:
    """Looks at the agents themselves."""

    def __init__(self, freezer: Freezer, observer: Observer) -> None:
        self._freezer = freezer
        self._observer = observer

    async def is_frozen(self, session: Session) -> bool:
        """True if the session's cgroup says that its process and all others in it are frozen."""
        return await self._freezer.is_frozen(session)

    async def works(self, session_id: str) -> bool | None:
        """True if a turn or a background agent runs, by the agent's own report now. None without a report."""
        return await self._observer.works(session_id)

    def background_agents(self, session_id: str) -> int:
        """The number of its background agents that were seen at work lately."""
        return self._observer.background_agents(session_id)


class PauseTimers:
    """Ends pauses whose time is over, and looks what paused sessions still spend."""

    def __init__(
        self, store: Store, pauses: Pauses, providers: Mapping[str, Provider], sight: AgentSight
    ) -> None:
        self._store = store
        self._pauses = pauses
        self._providers = providers
        self._sight = sight

    async def begin(self) -> None:
        """Have the paused sessions verified that nothing looks at: an older version has paused them."""
        timers = self._store.mail.open.timers
        ids = [
            i
            for i, s in self._store.sessions.items()
            if is_pausing(s) and (i, PauseTimer.PAUSE) not in timers
        ]
        if not ids:
            return
        try:
            async with self._store.transaction() as tx:
                for session_id in ids:
                    await look_first(tx, tx.session(session_id))
        except StorageFull as error:  # a full disk must not keep the daemon from starting
            log.warning("could not order looks at paused sessions: %s", error.message)

    async def resume_due(self, timer: Timer) -> float | None:
        """The time of a pause is over."""
        async with self._store.transaction() as tx:
            session = tx.find(timer.subject)
            if not tx.timers.take(timer) or session is None or session.paused is None:
                return None
            if session.paused.until is None:
                return None  # another cause has taken over the pause
            if not await leave_to_hold(tx, session) and await tx.keep_paused(session) is None:
                await order_resume(tx, session, SM_ITSELF)
        return None

    async def look_again(self, timer: Timer) -> float | None:
        """Look what a paused session still spends, and carry out the next step."""
        session = self._store.sessions.get(timer.subject)
        seen = None if session is None or session.paused is None else await self._look(session)
        async with self._store.transaction() as tx:
            session = tx.find(timer.subject)
            if tx.timers.take(timer) and session is not None and seen is not None:
                await self._pauses.follow_look(tx, session, seen)
        return None

    async def _look(self, session: Session) -> Seen:
        if session.process is None or session.exit is not None:
            return Seen(works=False, has_process=False)
        if await self._sight.is_frozen(session):
            return Seen(works=False, frozen=True)
        if not self._providers[session.provider].has_turns:
            effects = self._store.mail.open.effects.values()
            stops = any(e.session_id == session.id and e.kind == EffectKind.SUSPEND for e in effects)
            return Seen(works=False, still=not stops, tells=False)
        works = await self._sight.works(session.id)
        if works is None and session.status is Status.RUNNING:
            works = True  # an absence is no evidence
        return Seen(works=works, agents=self._sight.background_agents(session.id))
