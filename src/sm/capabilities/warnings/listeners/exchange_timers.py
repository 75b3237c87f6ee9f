"""Runs the timers of exchanges: ends the waits of messages, and the warnings about two sessions that have stopped."""

from sm.capabilities.warnings.model import WarningTimer
from sm.capabilities.warnings.state.exchanges import Exchanges
from sm.core.timers import Timer
from sm.store import Store


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
