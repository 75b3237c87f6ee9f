"""The network of the HTTP libraries of others (httpx, httpx2): their own code, with connections in memory.

Stands for `AutoBackend` of httpcore and httpcore2. A host and port is the address `HOST:PORT` of the switchboard.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from unittest import mock

from tests.sim.lives import life_in
from tests.sim.wire import Switchboard, _End


class _Stream:
    """A connection as httpcore uses it. `errors`: the module with its exceptions."""

    def __init__(self, end: _End, reader: asyncio.StreamReader, errors: ModuleType) -> None:
        self._end = end
        self._reader = reader
        self._errors = errors

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            async with asyncio.timeout(timeout):
                return await self._reader.read(max_bytes)
        except TimeoutError as error:
            raise self._errors.ReadTimeout(str(error)) from error
        except ConnectionError as error:
            raise self._errors.ReadError(str(error)) from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if self._end.is_closing():
            raise self._errors.WriteError("the other end has gone")
        self._end.write(buffer)

    async def aclose(self) -> None:
        self._end.close()

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":  # asked for an idle connection: true after the other end has gone
            return self._end.is_closing()
        return None


class PlayedNetwork:
    """Opens connections of the process `pid`."""

    def __init__(self, board: Switchboard, pid: int, errors: ModuleType) -> None:
        self._board = board
        self._pid = pid
        self._errors = errors

    async def connect_tcp(self, host: str, port: int, *_: object, **__: object) -> _Stream:
        return self._connect(f"{host}:{port}")

    async def connect_unix_socket(self, path: str, *_: object, **__: object) -> _Stream:
        return self._connect(path)

    def _connect(self, address: str) -> _Stream:
        reader = asyncio.StreamReader()
        try:
            protocol = asyncio.StreamReaderProtocol(reader)
            end = self._board.connect(address, protocol, self._pid, life_in(None))
        except ConnectionRefusedError as error:
            raise self._errors.ConnectError(str(error)) from error
        return _Stream(end, reader, self._errors)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@contextmanager
def played_network(board: Switchboard, pid: int, library: ModuleType) -> Iterator[None]:
    """Let new clients of the library, `httpcore` or `httpcore2`, connect through the switchboard."""
    network = PlayedNetwork(board, pid, library)
    with mock.patch(f"{library.__name__}._async.connection_pool.AutoBackend", return_value=network):
        yield
