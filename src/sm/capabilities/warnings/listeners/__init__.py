"""Shows the open warnings of sessions, and runs the timers of exchanges."""

from collections.abc import Collection
from typing import Any

from sm.capabilities.warnings.model import WarningTimer
from sm.capabilities.warnings.state.exchanges import Exchanges
from sm.capabilities.warnings.tables import WarningReads
from sm.core.timers import Timer
from sm.sessions.session_fields import SessionField
from sm.store import Store
from sm.wire_types.session_answers import WarningView


class WarningsField(SessionField):
    """The open warnings of a session, oldest first."""

    name = "warnings"
    is_public = True

    def __init__(self, reads: WarningReads) -> None:
        self._reads = reads

    def ids(self) -> Collection[str]:
        return self._reads.known()

    def value(self, session_id: str) -> Any:
        return [
            WarningView(w.kind.value, w.opened_at, w.value, w.limit, w.evidence)
            for w in self._reads.all_of(session_id)
        ]

    def signs(self, session_id: str) -> int:
        return len(self._reads.all_of(session_id))


class ExchangeTimers:
    def __init__(self, store: Store, exchanges: Exchanges) -> None:
        self._store = store
        self._exchanges = exchanges

    async def release(self, timer: Timer) -> None:
        """Release a message whose wait is over."""
        async with self._store.transaction() as tx:
            if tx.timers.take(timer):
                await self._exchanges.release(tx, timer)

    async def look(self, timer: Timer) -> float | None:
        """End a warning after silence. Returns the seconds until the next look while a decision is awaited."""
        async with self._store.transaction() as tx:
            if tx.timers.find(timer.subject, WarningTimer.EXCHANGE) != timer:
                return None
            again_s = await self._exchanges.look(tx, timer)
            if again_s is None:
                tx.timers.take(timer)
            return again_s
