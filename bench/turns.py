"""Runs the daemon with a clock in its event loop: `python -m bench.turns --ready-fd N`.

Writes the longest turn of the loop so far, in seconds as a double, to the file in BENCH_TURNS. SIGUSR2 resets the
measurement. A turn is the time between two waits, in which no other request is answered.
"""

import asyncio
import os
import signal
import struct
import sys
import time
from types import FrameType
from typing import Any

from sm.daemon import main as daemon


class _Clocked(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self._file = os.open(os.environ["BENCH_TURNS"], os.O_RDWR | os.O_CREAT, 0o600)
        self._began = time.perf_counter()
        self._longest = 0.0
        signal.signal(signal.SIGUSR2, self._reset)

    def _reset(self, number: int, frame: FrameType | None) -> None:
        self._longest = 0.0
        os.pwrite(self._file, struct.pack("d", 0.0), 0)

    def _process_events(self, event_list: Any) -> None:  # the wait is over (asyncio, base_events)
        self._began = time.perf_counter()
        super()._process_events(event_list)  # type: ignore[misc]  # not in the stubs

    def _run_once(self) -> None:
        turn = time.perf_counter() - self._began
        if turn > self._longest:
            self._longest = turn
            os.pwrite(self._file, struct.pack("d", turn), 0)
        super()._run_once()  # type: ignore[misc]  # not in the stubs


class _Policy(asyncio.DefaultEventLoopPolicy):
    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return _Clocked()


if __name__ == "__main__":
    asyncio.set_event_loop_policy(_Policy())
    sys.exit(daemon.main(sys.argv[1:]))
