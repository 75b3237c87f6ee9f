"""Wakes tasks that wait for a change of something in memory."""

import asyncio
from collections.abc import Callable


class ChangeSignal:
    """The owner calls `changed` after each change.

    A change looks at the conditions itself and wakes only tasks whose condition holds: most of many tasks sleep on.
    """

    def __init__(self) -> None:
        self.count = 0
        """The number of changes."""
        self._waits: dict[asyncio.Future[bool], Callable[[], bool]] = {}

    def changed(self) -> None:
        self.count += 1
        for wait, condition in tuple(self._waits.items()):
            if not wait.done() and _may_hold(condition):
                wait.set_result(True)

    async def wait_until(self, condition: Callable[[], bool], within_s: float | None = None) -> bool:
        """Wait until `condition` holds, checked after every change. Returns False if that timed out."""
        loop = asyncio.get_running_loop()
        until_s = None if within_s is None else loop.time() + within_s
        while not condition():
            wait: asyncio.Future[bool] = loop.create_future()
            timer = None if until_s is None else loop.call_at(until_s, _give_up, wait)
            self._waits[wait] = condition
            try:
                if not await wait:
                    return False
            finally:
                del self._waits[wait]
                if timer is not None:
                    timer.cancel()
        return True


def _may_hold(condition: Callable[[], bool]) -> bool:
    """False if the condition does not hold."""
    try:
        return condition()
    except Exception:  # noqa: BLE001 - raised to the task, which looks again
        return True


def _give_up(wait: "asyncio.Future[bool]") -> None:
    if not wait.done():
        wait.set_result(False)
