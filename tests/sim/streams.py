"""A client that reads a stream of the daemon, as a live view does."""

import asyncio
from collections.abc import AsyncIterator

from sm.client.connection import request
from sm.client.http import DaemonAway
from tests.sim.world import World

_LINE_MAX = 1 << 22


class Stream:
    """One connection of the operator. Raises DaemonAway when nobody serves."""

    def __init__(self, world: World, target: str) -> None:
        self._reader = asyncio.StreamReader(_LINE_MAX)
        protocol = asyncio.StreamReaderProtocol(self._reader)
        try:
            self._end = world.board.connect(world.paths.socket, protocol, world.shell.pid)
        except ConnectionRefusedError as error:
            raise DaemonAway(str(error)) from None
        self._end.write(request("GET", target, key=None, body=None, token=""))

    def cut(self) -> None:
        """Lose the connection."""
        self._end.abort()

    def stop_reading(self) -> None:
        self._end.pause_reading()

    def go_on(self) -> None:
        if not self._end.is_closing():
            self._end.resume_reading()

    async def data(self) -> AsyncIterator[bytes]:
        """The data of each event. Raises DaemonAway at the end of the connection."""
        text = b""
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
            if head.split()[1] != b"200":
                raise DaemonAway(f"the daemon answers {head[:40]!r}")
            while size := int(await self._reader.readuntil(b"\r\n"), 16):
                text += await self._reader.readexactly(size)
                await self._reader.readexactly(2)
                *lines, text = text.split(b"\n")
                for line in lines:
                    if line.startswith(b"data: "):
                        yield line.removeprefix(b"data: ")
            raise DaemonAway("the stream has ended")
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            raise DaemonAway(f"the connection broke: {error}") from None
        finally:
            self._end.close()
