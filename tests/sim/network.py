"""The network of the HTTP libraries of others (httpx, httpx2, aiohttp): their own code, with connections in memory.

Stands for `AutoBackend` of httpcore and httpcore2, and for the sockets of aiohttp. A host and port is the address
`HOST:PORT` of the switchboard.
"""

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from unittest import mock

from aiohttp import web

from tests.sim.blocking import drive
from tests.sim.lives import Life, life_in
from tests.sim.loop import VirtualLoop
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


@contextmanager
def played_sockets(board: Switchboard, loop: VirtualLoop) -> Iterator[None]:
    """Let the clients of aiohttp connect through the switchboard."""

    async def start_connection(*, addr_infos: Sequence[tuple[Any, ...]], **_: object) -> str:
        host, port = addr_infos[0][-1][:2]
        return f"{host}:{port}"

    async def create_connection(
        factory: Callable[[], asyncio.Protocol], *_: object, sock: str, **__: object
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        protocol = factory()
        end = board.connect(sock, protocol, os.getpid(), life_in(None))
        await asyncio.sleep(0)  # the connection is made
        return end, protocol

    with (
        mock.patch("aiohttp.connector.aiohappyeyeballs.start_connection", start_connection),
        mock.patch.object(loop, "create_connection", create_connection),
    ):
        yield


def serve(board: Switchboard, loop: VirtualLoop, app: web.Application, address: str) -> None:
    """Serve an application on an address such as `127.0.0.1:80`, as a process of its own, until the world ends."""
    life = Life(address)

    async def set_up() -> None:
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None)
        await runner.setup()
        assert runner.server is not None
        board.listen(address, life, runner.server)

    async def begin() -> None:
        await loop.create_task(set_up(), context=life.context)

    drive(loop, begin())
