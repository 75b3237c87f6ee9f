"""A played process of a session that sends the requests of hooks."""

import asyncio
from collections.abc import Mapping
from typing import Any

from sm.client.http import DaemonAway
from sm.errors import SmError
from tests.sim.blocking import drive
from tests.sim.processes import PlayedProcess
from tests.sim.world import World

_WITHIN_S = 60.0
_AWAY_S = 20.0


class HookCaller:
    """As in tests/integration/hook_caller.py: a played process of a session that sends requests one after the other."""

    def __init__(self, world: World, environ: Mapping[str, str]) -> None:
        self._loop = world.loop
        self._process: PlayedProcess = world.kernel.start(("sm", "hook"), environ, str(world.work))
        self._caller = world.programs.caller(self._process)
        self._answers: list[asyncio.Task[list[Any]]] = []

    def send(self, path: str, key: str, body: Mapping[str, object]) -> None:
        before = self._answers[-1] if self._answers else None
        answer = self._answer(before, path, key, body)
        self._answers.append(self._loop.create_task(answer))

    async def _answer(
        self, before: "asyncio.Task[list[Any]] | None", path: str, key: str, body: Mapping[str, object]
    ) -> list[Any]:
        if before is not None:
            await asyncio.wait([before])
        loop = asyncio.get_running_loop()
        until_s = loop.time() + _AWAY_S
        while True:
            try:
                return ["ok", await self._caller.post(path, body, key=key)]
            except DaemonAway as error:
                if loop.time() > until_s:
                    return [error.code, error.message, error.hint]
                await asyncio.sleep(0.05)
            except SmError as error:
                return [error.code, error.message, error.hint]

    def receive(self, within_s: float = _WITHIN_S) -> list[Any]:
        """Return the answer to the oldest request whose answer was not received yet."""

        async def wait() -> list[Any]:
            async with asyncio.timeout(within_s):
                return await self._answers.pop(0)

        return drive(self._loop, wait())

    def end(self) -> None:
        while self._answers:
            self._answers.pop().cancel()
