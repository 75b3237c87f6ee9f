"""The threads of aiosqlite, played: each call to SQLite is a callback of the loop."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from aiosqlite import core

from sm.store import history
from tests.sim.disk import Disk
from tests.sim.lives import life_in
from tests.sim.replacing import replaced


class _CallQueue:
    """Runs the calls of one connection in their order, in place of `queue.SimpleQueue`."""

    disk: Disk | None = None

    def put_nowait(self, call: tuple["asyncio.Future[Any] | None", Callable[[], Any]]) -> None:
        future, function = call
        asyncio.get_running_loop().call_soon(self._run, future, function)

    def _run(self, future: "asyncio.Future[Any] | None", function: Callable[[], Any]) -> None:
        try:
            if self.disk is not None:
                self.disk.check_call(function)
            result = function()
        except BaseException as error:  # noqa: BLE001 - as aiosqlite passes on every error
            if future is not None and not future.done():
                future.set_exception(error)
            return
        if isinstance(result, sqlite3.Connection) and (life := life_in(None)) is not None:
            life.connections.append(result)
        if future is not None and not future.done():
            future.set_result(result)


_open_reader = history.connect_reader


def _connect_reader(path: str) -> sqlite3.Connection:
    """Close the connection with its life, as the kernel does for an ended process."""
    connection = _open_reader(path)
    if (life := life_in(None)) is not None:
        life.connections.append(connection)
    return connection


class _NoThread:
    def __init__(self, *_: object, **__: object) -> None:
        pass

    def start(self) -> None:
        """The loop does its work."""


@contextmanager
def played_threads(disk: Disk | None = None) -> Iterator[None]:
    """Run the calls of all connections that are opened meanwhile on the loop. `disk` may be full at a write."""
    queue = type("CallQueue", (_CallQueue,), {"disk": disk})
    reader = history, "connect_reader", _connect_reader
    with replaced((core, "SimpleQueue", queue), (core, "Thread", _NoThread), reader):
        yield
