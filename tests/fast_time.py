"""An event loop for hours of real parts: when no I/O has come for a moment, it skips to its next timer.

Unlike virtual_time.py it waits for sockets and threads, so that real connections and a real database work.
"""

import asyncio
import selectors
import time


class _Skipping(selectors.DefaultSelector):
    quiet_s = 0.01
    skipped_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= self.quiet_s:
            return super().select(timeout)
        began = time.monotonic()
        ready = super().select(self.quiet_s)
        if not ready:
            self.skipped_s += max(0.0, timeout - (time.monotonic() - began))
        return ready


class FastTime(asyncio.SelectorEventLoop):
    """`time` may be called from any thread."""

    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        return time.monotonic() + self._skipping.skipped_s

    def skip_after(self, quiet_s: float) -> None:
        """Skip a pause after `quiet_s` real seconds without I/O: longer than a healthy answer may take."""
        self._skipping.quiet_s = quiet_s
