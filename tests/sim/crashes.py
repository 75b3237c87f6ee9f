"""Daemons that are dropped at a point, as tests/integration/crash_point.py kills real ones."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from typing import Self

from tests.integration.crash_point import patch
from tests.sim.blocking import drive
from tests.sim.terminals import FakeTerminals
from tests.sim.world import World

_WITHIN_S = 60.0
_LOOK_S = 0.02


class CrashingDaemon:
    """A daemon that was started with a crash point. Within the context the method of the point is patched."""

    def __init__(self, world: World, point: str) -> None:
        self._world = world
        self._point = point
        self._patches = ExitStack()
        self._patches.callback(patch(point, self._crash, {"Tmux": FakeTerminals}))
        drive(world.loop, self._start())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._patches.close()

    def wait(self) -> None:
        """Let time pass until the daemon is over."""
        drive(self._world.loop, self._wait(lambda: self._life.is_dropped))

    async def _start(self) -> None:
        """Return when the daemon serves requests or is over."""
        starting = asyncio.create_task(self._world.start())
        await asyncio.sleep(0)  # it begins
        self._life = self._world.daemon.life
        await self._wait(lambda: starting.done() or self._life.is_dropped)
        starting.cancel()

    async def _wait(self, is_over: Callable[[], bool]) -> None:
        loop = asyncio.get_running_loop()
        until_s = loop.time() + _WITHIN_S
        while not is_over():
            assert loop.time() < until_s, f"the daemon did not reach {self._point}"
            await asyncio.sleep(_LOOK_S)

    async def _crash(self) -> None:
        """Drop the daemon in place of its next step. Its task waits here for ever."""
        self._world.loop.interrupt_after(0, self._drop)
        await asyncio.get_running_loop().create_future()

    def _drop(self) -> None:
        self._patches.close()
        self._world.daemon.drop()
