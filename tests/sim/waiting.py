"""Waits of code that blocks for real descriptors, while virtual time passes."""

import math
import select
from collections.abc import Callable, Mapping
from typing import Any

from sm.client.connection import HttpConnection

_LOOK_S = 0.02


class BlockingPoll:
    """`select.poll` for code that blocks: virtual time passes while it waits for real descriptors."""

    def __init__(self, sleep: Callable[[float], None]) -> None:
        self._sleep = sleep
        self._poll = select.poll()
        self.unregister = self._poll.unregister

    def register(self, fd: int, events: int = select.POLLIN) -> None:
        self._poll.register(fd, events)

    def poll(self, timeout_ms: float | None = None) -> list[tuple[int, int]]:
        left_s = math.inf if timeout_ms is None else timeout_ms / 1000
        while not (ready := self._poll.poll(0)) and left_s > 0:
            self._sleep(min(_LOOK_S, left_s))
            left_s -= _LOOK_S
        return ready


def wait_for_bytes(
    sleep: Callable[[float], None], files: Mapping[int, int]
) -> Callable[[HttpConnection, int], None]:
    """`HttpConnection._wait_for_bytes` with a socket in memory. `files`: real descriptors in place of others."""

    def wait(connection: HttpConnection, reader_fd: int) -> None:
        sock: Any = connection._socket  # a BlockingSocket
        reader = select.poll()
        reader.register(files.get(reader_fd, reader_fd), 0)
        left_s = sock.gettimeout() or 0.0
        while True:
            if reader.poll(0):
                raise BrokenPipeError
            if sock.is_readable:
                return
            if left_s <= 0:
                raise TimeoutError
            sleep(min(_LOOK_S, left_s))
            left_s -= _LOOK_S

    return wait
