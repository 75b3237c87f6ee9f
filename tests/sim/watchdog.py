"""Finds a callback that blocks the loop of a simulation for real, and ends it with its stack."""

import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType

from tests.sim.loop import VirtualLoop

BLOCKED_S = 60.0
"""Real seconds for one callback, which takes milliseconds: only a hang lasts so long, also on a busy machine."""
_LOOKS = 10


class BlockedLoop(AssertionError):
    """One callback waits for something real."""


class Watchdog:
    """A thread that looks at the loop of the simulation that runs. One for each simulation takes 3% of their time."""

    def __init__(self, blocked_s: float) -> None:
        self._pause_s = blocked_s / _LOOKS
        self._loop: VirtualLoop | None = None
        self._watched, self._blocked = 0, ""
        """The thread of the loop, and the stack of its callback that does not return."""
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog of simulations", daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        seen, looks = (self._loop, -1), 0
        while not self._over.wait(self._pause_s):
            loop = self._loop
            now = (loop, -1 if loop is None else loop.steps)
            looks = looks + 1 if loop is not None and loop.is_running() and now == seen else 0
            seen = now
            if looks == _LOOKS + 1:
                self._interrupt(loop)

    def _interrupt(self, loop: VirtualLoop | None) -> None:
        with self._lock:
            if self._loop is loop:  # else the signal would end the process
                self._blocked = _stack(sys._current_frames().get(self._watched))
                signal.pthread_kill(self._watched, signal.SIGUSR2)

    def _fail(self, *_: object) -> None:
        raise BlockedLoop(f"a callback blocks the loop:\n{self._blocked}")

    @contextmanager
    def watched(self, loop: VirtualLoop) -> Iterator[None]:
        """Raise BlockedLoop in a callback of this thread that does not return."""
        before = signal.signal(signal.SIGUSR2, self._fail)
        self._watched, self._loop = threading.get_ident(), loop
        try:
            yield
        finally:
            with self._lock:
                self._loop = None
            signal.signal(signal.SIGUSR2, before)


@cache
def watchdog() -> Watchdog:
    """The watchdog of this process."""
    return Watchdog(BLOCKED_S)


def _stack(frame: FrameType | None) -> str:
    return "".join(traceback.format_stack(frame))
