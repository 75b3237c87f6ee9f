"""Lets code that blocks, such as the command `sm`, run in a simulation: each wait lets the world go on.

Only code that runs outside of the loop may block.
"""

import asyncio
import os
import socket
import struct
from collections.abc import Coroutine
from typing import Any, TypeVar

from tests.sim.loop import VirtualLoop
from tests.sim.wire import Switchboard

T = TypeVar("T")


def drive(loop: VirtualLoop, coroutine: Coroutine[Any, Any, T]) -> T:
    """Let the world go on until the coroutine has ended, and return its result."""
    assert not loop.is_running(), "code on the loop must not block"
    return loop.run_until_complete(coroutine)


class BlockingSocket:
    """A client's socket, as far as sm.client uses one. `pid`: the process that has it."""

    def __init__(self, loop: VirtualLoop, board: Switchboard, pid: int) -> None:
        self._loop = loop
        self._board = board
        self._pid = pid
        self._timeout_s: float | None = None
        self._reader = asyncio.StreamReader(loop=loop)
        self._transport: asyncio.Transport | None = None

    def settimeout(self, timeout_s: float | None) -> None:
        self._timeout_s = timeout_s

    def gettimeout(self) -> float | None:
        return self._timeout_s

    def connect(self, path: str | bytes) -> None:
        protocol = asyncio.StreamReaderProtocol(self._reader, loop=self._loop)
        self._transport = self._board.connect(os.fsdecode(path), protocol, self._pid)

    def getsockopt(self, level: int, option: int, size: int = 0) -> bytes:
        assert (level, option) == (socket.SOL_SOCKET, socket.SO_PEERCRED)
        return struct.pack("3i", os.getpid(), os.geteuid(), os.getegid())

    def sendall(self, data: bytes) -> None:
        assert self._transport is not None
        if self._transport.is_closing():
            raise BrokenPipeError("the other end has gone")
        self._transport.write(data)

    def recv(self, size: int) -> bytes:
        """Raises TimeoutError, ConnectionResetError."""

        async def read() -> bytes:
            async with asyncio.timeout(self._timeout_s):
                return await self._reader.read(size)

        return drive(self._loop, read())

    def shutdown(self, _: int) -> None:
        self.close()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class BlockingSockets:
    """Stands for the module `_socket` in sm.client.connection. `pid`: the process whose command runs."""

    AF_UNIX, SOCK_STREAM, SHUT_RDWR = socket.AF_UNIX, socket.SOCK_STREAM, socket.SHUT_RDWR
    SOL_SOCKET, SO_PEERCRED = socket.SOL_SOCKET, socket.SO_PEERCRED

    def __init__(self, loop: VirtualLoop, board: Switchboard, pid: int) -> None:
        self._loop = loop
        self._board = board
        self.pid = pid

    def socket(self, *_: object) -> BlockingSocket:
        return BlockingSocket(self._loop, self._board, self.pid)
