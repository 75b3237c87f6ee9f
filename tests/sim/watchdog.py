"""Finds a callback that blocks the loop of a simulation for real, and ends it with its stack."""

import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from tests.sim.loop import VirtualLoop

BLOCKED_S = 60.0
"""Real seconds for one callback, which takes milliseconds: only a hang lasts so long, also on a busy machine."""
_LOOKS = 10


class BlockedLoop(AssertionError):
    """One callback waits for something real."""


@contextmanager
def watched(loop: VirtualLoop, blocked_s: float = BLOCKED_S) -> Iterator[None]:
    """Raise BlockedLoop in a callback of this thread that does not return."""
    watcher, over, blocked = threading.get_ident(), threading.Event(), [""]

    def fail(*_: object) -> None:
        raise BlockedLoop(f"a callback blocks the loop:\n{blocked[0]}")

    def watch() -> None:
        step, looks = -1, 0
        while not over.wait(blocked_s / _LOOKS):
            looks = looks + 1 if loop.is_running() and loop.steps == step else 0
            step = loop.steps
            if looks > _LOOKS:
                blocked[0] = _stack(sys._current_frames().get(watcher))
                signal.pthread_kill(watcher, signal.SIGUSR2)
                return

    before = signal.signal(signal.SIGUSR2, fail)
    thread = threading.Thread(target=watch, name="watchdog of the simulation", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        signal.signal(signal.SIGUSR2, before)


def _stack(frame: FrameType | None) -> str:
    return "".join(traceback.format_stack(frame))
