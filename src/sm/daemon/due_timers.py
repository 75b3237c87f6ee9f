"""Runs the timers of the database when they are due."""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from sm.core.dataclass import dataclass
from sm.core.timers import Timer
from sm.errors import SmError
from sm.store import Store

log = logging.getLogger(__name__)

_LONGEST_PAUSE_S = 30.0
"""How often the times of the wall clock are compared: no event reports a step of that clock."""
_RETRY_S = 5.0

TimerHandler: TypeAlias = Callable[[Timer], Awaitable[float | None]]
"""Carries out a due timer, in one transaction that begins with `tx.timers.take`.

Returns the seconds after which to call it again because the action has to wait, or None if the timer was taken or has
changed.
"""


@dataclass(slots=True)
class _Wait:
    timer: Timer
    until_s: float
    """A time of the steady clock; ignored while a timer of the wall clock is not due."""


class DueTimers:
    """One task that calls the handler of each due timer, and sleeps until the next one is due.

    A timer without a handler stays: a newer version has set it. `wall` gives seconds since the epoch, `steady` those of
    a clock that nobody sets.
    """

    def __init__(
        self,
        store: Store,
        handlers: Mapping[str, TimerHandler],
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._handlers = handlers
        self._wall = wall
        self._steady = steady
        self._waits: dict[tuple[str, str], _Wait] = {}

    async def run(self) -> None:
        """Run the timers. Never returns."""
        while True:
            timers = self._store.mail.open.timers
            pause_s = await self.run_due(timers)
            await self._store.wait_until(lambda: self._store.mail.open.timers is not timers, pause_s)  # noqa: B023

    async def run_due(self, timers: Mapping[tuple[str, str], Timer]) -> float | None:
        """Call the handlers of the due timers in their order.

        Returns the seconds until the next one; None without one.
        """
        self._waits = {key: wait for key, wait in self._waits.items() if timers.get(key) == wait.timer}
        pauses = []
        for timer in sorted(timers.values(), key=lambda timer: timer.due_at):
            handler = self._handlers.get(timer.kind)
            if handler is None:
                continue
            left = self._seconds_left(timer)
            if left <= 0:
                again_s = await self._handle(handler, timer)
                if again_s is None:
                    continue
                self._waits[timer.key] = _Wait(timer, self._steady() + again_s)
                left = again_s
            pauses.append(min(left, _LONGEST_PAUSE_S))
        return min(pauses, default=None)

    def _seconds_left(self, timer: Timer) -> float:
        now = self._steady()
        left = timer.seconds_left(self._wall())
        wait = self._waits.get(timer.key)
        if wait is None:
            if timer.within_s is None:
                return left
            wait = self._waits[timer.key] = _Wait(timer, now + left)
        return wait.until_s - now

    async def _handle(self, handler: TimerHandler, timer: Timer) -> float | None:
        try:
            return await handler(timer)
        except SmError as error:  # such as a full disk
            log.warning("postponed a timer: %s", error.message, extra={"sm_session": timer.subject})
        except Exception:
            log.exception("failed to run a timer", extra={"sm_session": timer.subject})
        return _RETRY_S
