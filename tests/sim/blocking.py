"""Lets code that blocks, such as the command `sm`, run in a simulation: each wait lets the world go on.

Blocking code runs outside of the loop, or as a greenlet: it gives the coroutine that it waits for to `run_blocking` or
`run_blocking_on_loop`, and goes on with the result.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any, Self, TypeVar, cast

from greenlet import GreenletExit, getcurrent, greenlet  # type: ignore[import-untyped]

from tests.sim.loop import VirtualLoop
from tests.sim.wire import Switchboard

T = TypeVar("T")
Surroundings = Callable[[], AbstractContextManager[object]]
"""Opens the surroundings of a process around each step of its code, such as its environment."""


def drive(loop: VirtualLoop, coroutine: Coroutine[Any, Any, T]) -> T:
    """Let the world go on until the coroutine has ended, and return its result."""
    if (parent := getcurrent().parent) is not None:
        return cast(T, parent.switch(coroutine))
    assert not loop.is_running(), "code on the loop must not block"
    return loop.run_until_complete(coroutine)


class _Steps:
    """The steps of blocking code between two waits."""

    def __init__(self, code: Callable[[], Any], surroundings: Surroundings) -> None:
        self._greenlet = greenlet(code)
        self._surroundings = surroundings

    def go_on(self, value: object = None, error: BaseException | None = None) -> Any:
        """Run to the next wait, and return its coroutine; the result of the code when it `is_over`."""
        with self._surroundings():
            return self._greenlet.switch(value) if error is None else self._greenlet.throw(error)

    def begin(self) -> Any:
        with self._surroundings():
            return self._greenlet.switch()

    def abandon(self) -> None:
        """End the code where it waits."""
        with self._surroundings():
            while not self.is_over:
                left = self._greenlet.throw(GreenletExit)
                if asyncio.iscoroutine(left):  # a `finally` waits
                    left.close()

    @property
    def is_over(self) -> bool:
        return bool(self._greenlet.dead)


def run_blocking(loop: VirtualLoop, code: Callable[[], T], surroundings: Surroundings) -> T:
    """Run blocking code outside of the loop, or inside of other blocking code."""
    steps = _Steps(code, surroundings)
    found = steps.begin()
    while not steps.is_over:
        try:
            value = drive(loop, found)
        except Exception as error:  # noqa: BLE001 - the code handles the error of its wait
            found = steps.go_on(error=error)
        else:
            found = steps.go_on(value)
    return cast(T, found)


class Interruption:
    """Interrupts blocking code in its wait, as SIGINT does."""

    def __init__(self) -> None:
        self._wait: asyncio.Future[Any] | None = None
        self._is_due = False

    def interrupt(self) -> None:
        assert self._wait is not None, "the code does not wait"
        self._is_due = True
        self._wait.cancel()

    async def wait(self, found: Coroutine[Any, Any, T]) -> T:
        """Raises KeyboardInterrupt when it is interrupted."""
        wait: asyncio.Future[T] = asyncio.ensure_future(found)
        self._wait = wait
        try:
            return await wait
        except asyncio.CancelledError:
            if not self._is_due:
                raise
            self._is_due = False
            raise KeyboardInterrupt from None
        finally:
            self._wait = None


async def run_blocking_on_loop(
    code: Callable[[], T], surroundings: Surroundings, interruption: Interruption | None = None
) -> T:
    """Run blocking code while the world goes on. `interruption` may interrupt it."""
    steps = _Steps(code, surroundings)
    found = steps.begin()
    try:
        while not steps.is_over:
            try:
                value = await (found if interruption is None else interruption.wait(found))
            except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the code handles the error of its wait
                found = steps.go_on(error=error)
            else:
                found = steps.go_on(value)
    finally:
        steps.abandon()
    return cast(T, found)


class BlockingSocket:
    """A client's socket, as far as sm.client uses one. `pid`: the process that has it."""

    def __init__(self, loop: VirtualLoop, board: Switchboard, pid: int) -> None:
        self._loop = loop
        self._board = board
        self._pid = pid
        self._timeout_s: float | None = None
        self._reader = asyncio.StreamReader(loop=loop)
        self._transport: asyncio.Transport | None = None
        self.on_close: Callable[[], None] = lambda: None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def settimeout(self, timeout_s: float | None, /) -> None:
        self._timeout_s = timeout_s

    def gettimeout(self) -> float | None:
        return self._timeout_s

    def connect(self, path: str | bytes) -> None:
        protocol = asyncio.StreamReaderProtocol(self._reader, loop=self._loop)
        self._transport = self._board.connect(os.fsdecode(path), protocol, self._pid)

    def getsockopt(self, level: int, option: int, size: int = 0) -> bytes:
        assert self._transport is not None
        found: bytes = self._transport.get_extra_info("socket").getsockopt(level, option, size)
        return found

    def sendall(self, data: bytes, /) -> None:
        assert self._transport is not None
        if self._transport.is_closing():
            raise BrokenPipeError("the other end has gone")
        self._transport.write(data)

    def recv(self, size: int, /) -> bytes:
        """Raises TimeoutError, ConnectionResetError."""

        async def read() -> bytes:
            async with asyncio.timeout(self._timeout_s):
                return await self._reader.read(size)

        return drive(self._loop, read())

    @property
    def is_readable(self) -> bool:
        """True if `recv` would not wait."""
        reader: Any = self._reader
        return bool(reader._buffer) or reader._eof or reader.exception() is not None

    def shutdown(self, _: int) -> None:
        self.close()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
            self.on_close()


class BlockingSockets:
    """Stands for the module `_socket` in sm.client.connection. `pid`: the process whose code runs."""

    AF_UNIX, SOCK_STREAM, SHUT_RDWR = socket.AF_UNIX, socket.SOCK_STREAM, socket.SHUT_RDWR
    SOL_SOCKET, SO_PEERCRED = socket.SOL_SOCKET, socket.SO_PEERCRED

    def __init__(self, loop: VirtualLoop, board: Switchboard, pid: int) -> None:
        self._loop = loop
        self._board = board
        self.pid = pid

    def socket(self, *_: object) -> BlockingSocket:
        return BlockingSocket(self._loop, self._board, self.pid)
