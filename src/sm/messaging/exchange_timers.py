"""Runs the timers of exchanges: ends the waits of messages, and the warnings about two sessions that have stopped."""

from sm.core.timers import Timer, TimerKind
from sm.sessions.manager import Manager
from sm.store import Store


class ExchangeTimers:
    def __init__(self, store: Store, manager: Manager) -> None:
        self._store = store
        self._manager = manager

    async def release(self, timer: Timer) -> None:
        """Release a message whose wait is over."""
        async with self._store.transaction() as tx:
            if tx.timers.take(timer):
                await self._manager.exchanges.release(tx, timer)

    async def look(self, timer: Timer) -> float | None:
        """End a warning after silence. Returns the seconds until the next look while a decision is awaited."""
        async with self._store.transaction() as tx:
            if tx.timers.find(timer.subject, TimerKind.EXCHANGE) != timer:
                return None
            again_s = await self._manager.exchanges.look(tx, timer)
            if again_s is None:
                tx.timers.take(timer)
            return again_s
