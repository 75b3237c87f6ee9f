"""A scripted daemon in memory, for commands in the process of the test: tests/cli/peer.py without a socket."""

import asyncio
import os
import socket
from types import TracebackType
from typing import Self

from tests.cli.peer import ReceivedRequest, Script
from tests.sim.blocking import drive
from tests.sim.lives import Life
from tests.sim.stage import Instance

_WITHIN_S = 60.0
_ANSWER_S = 0.001
"""How long each answer takes."""


class Peer(Script):
    """Answers the connections to a path of the switchboard."""

    def __init__(self, instance: Instance, path: str) -> None:
        super().__init__(path)
        self._loop = instance.loop
        self._board = instance.world.board
        self._life = Life("peer")
        self._arrived = asyncio.Event()

    def wait_received(self, count: int) -> None:
        """Let virtual time pass until `count` requests have arrived."""

        async def wait() -> None:
            async with asyncio.timeout(_WITHIN_S):
                while len(self.received) < count:
                    self._arrived.clear()
                    await self._arrived.wait()

        drive(self._loop, wait())

    def _note(self, request: ReceivedRequest) -> None:
        super()._note(request)
        self._arrived.set()

    def _connected(self) -> asyncio.BaseProtocol:
        reader = asyncio.StreamReader(loop=self._loop)
        return asyncio.StreamReaderProtocol(reader, self._serve, loop=self._loop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(_ANSWER_S)
        await super()._serve(reader, writer)

    def __enter__(self) -> Self:
        os.makedirs(os.path.dirname(self.path), 0o700, exist_ok=True)
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(self.path)
        self._life.context.run(self._board.serve, listening, self._connected)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        drive(self._loop, self._end())
        self._board.close(self._life)
        os.unlink(self.path)

    async def _end(self) -> None:
        while others := self._life.tasks - {asyncio.current_task()}:
            await asyncio.wait(others)
