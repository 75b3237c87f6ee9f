"""Runs the daemon with a clock in its event loop: `python -m bench.turns --ready-fd N`.

Writes the longest turns of the loop so far to the file in BENCH_TURNS (`read_turns`). SIGUSR2 resets the measurement. A
turn is the time between two waits, in which no other request is answered.
"""

import asyncio
import os
import signal
import struct
import sys
import threading
import time
from types import FrameType
from typing import Any, NamedTuple

from sm.daemon import main as daemon

_FORMAT = "dd"


class Turns(NamedTuple):
    """The longest turns of a loop so far."""

    longest_s: float
    """By the clock. Includes the time in which other processes had the cores."""
    longest_worked_s: float
    """By the work of the daemon: the processor time of all its threads, at most the time of the turn without the time
    that the loop's thread waited for a core."""


def read_turns(path: str) -> Turns:
    with open(path, "rb") as file:
        return Turns(*struct.unpack(_FORMAT, file.read()))


class Clocks(NamedTuple):
    """Times in seconds."""

    now_s: float
    worked_s: float
    """The processor time of all threads of this process."""
    waited_s: float
    """The time for which this thread was ready and had no core."""


def read_clocks(schedule: int) -> Clocks:
    """`schedule`: a file descriptor of the thread's schedstat (proc(5))."""
    waited_ns = int(os.pread(schedule, 100, 0).split()[1])
    return Clocks(time.perf_counter(), time.process_time(), waited_ns / 1e9)


class ClockedLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self._file = os.open(os.environ["BENCH_TURNS"], os.O_RDWR | os.O_CREAT, 0o600)
        self._schedule = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        self._began = read_clocks(self._schedule)
        self._longest = Turns(0.0, 0.0)
        signal.signal(signal.SIGUSR2, self._reset)

    def close(self) -> None:
        if not self.is_closed():
            os.close(self._file)
            os.close(self._schedule)
        super().close()

    def _reset(self, number: int, frame: FrameType | None) -> None:
        self._keep(Turns(0.0, 0.0))

    def _keep(self, longest: Turns) -> None:
        self._longest = longest
        os.pwrite(self._file, struct.pack(_FORMAT, *longest), 0)

    def _process_events(self, event_list: Any) -> None:  # the wait is over (asyncio, base_events)
        self._began = read_clocks(self._schedule)
        super()._process_events(event_list)  # type: ignore[misc]  # not in the stubs

    def _run_once(self) -> None:
        began, now = self._began, read_clocks(self._schedule)
        turn = now.now_s - began.now_s
        worked = min(turn - (now.waited_s - began.waited_s), now.worked_s - began.worked_s)
        if turn > self._longest.longest_s or worked > self._longest.longest_worked_s:
            self._keep(Turns(max(turn, self._longest.longest_s), max(worked, self._longest.longest_worked_s)))
        super()._run_once()  # type: ignore[misc]  # not in the stubs


class _Policy(asyncio.DefaultEventLoopPolicy):
    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        if threading.current_thread() is threading.main_thread():
            return ClockedLoop()
        return super().new_event_loop()  # a library may run a loop of its own in a thread


if __name__ == "__main__":
    asyncio.set_event_loop_policy(_Policy())
    sys.exit(daemon.main(sys.argv[1:]))
