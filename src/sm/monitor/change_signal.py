"""Wakes tasks that wait for a change of something in memory."""

import asyncio
from collections.abc import Callable


class ChangeSignal:
    """The owner calls `changed` after each change."""

    def __init__(self) -> None:
        self._condition = asyncio.Condition()

    async def changed(self) -> None:
        async with self._condition:
            self._condition.notify_all()

    async def wait_until(self, condition: Callable[[], bool], within_s: float | None = None) -> bool:
        """Wait until `condition` holds, checked after every change. False: timed out."""
        try:
            async with asyncio.timeout(within_s), self._condition:
                await self._condition.wait_for(condition)
        except TimeoutError:
            return False
        return True
