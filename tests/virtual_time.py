"""An event loop with virtual time: it skips every pause and time-out at once, in their order."""

import asyncio
import selectors


class _Skipping(selectors.DefaultSelector):
    """Does not wait. `skipped_s` adds up the skipped time."""

    skipped_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("deadlock: every task waits, and no timer is set")
        self.skipped_s += max(0.0, timeout)
        return super().select(0)


class VirtualTime(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.skipped_s
