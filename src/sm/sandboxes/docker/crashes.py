"""Counts the unexpected ends of containers: delays the next start, and gives up after three in five minutes."""

import asyncio
import time
from collections import OrderedDict
from typing import Final

from sm.errors import SandboxUnavailable

MAX: Final = 3
WITHIN_S: Final = 300.0
_FIRST_PAUSE_S: Final = 1.0
_EXPECTED_MAX: Final = 1_000
_ENDING_SIGNALS: Final = frozenset({"9", "15", "SIGKILL", "SIGTERM"})


class Crashes:
    """A key is the slug of a workspace, or None for the container of sessions without a workspace."""

    def __init__(self) -> None:
        self._times: dict[str | None, list[float]] = {}
        self._expected: OrderedDict[str, bool] = OrderedDict()

    def expect_end(self, container: str, signal: str) -> None:
        """A person or the daemon sends a signal to the container's first process by the engine: its end is no crash."""
        if signal in _ENDING_SIGNALS:
            self._expected[container] = True
            while len(self._expected) > _EXPECTED_MAX:
                self._expected.popitem(last=False)

    def was_expected(self, container: str) -> bool:
        """True once after `expect_end`."""
        return self._expected.pop(container, False)

    def add(self, key: str | None) -> None:
        """The first process of the container ended unexpectedly."""
        self._times.setdefault(key, []).append(time.monotonic())

    def clear(self, key: str | None) -> None:
        self._times.pop(key, None)

    def has_crashed(self, key: str | None) -> bool:
        return bool(self._recent(key))

    def problem(self, key: str | None) -> SandboxUnavailable | None:
        """The reason why the container must not be made again; None if it may."""
        recent = len(self._recent(key))
        if recent < MAX:
            return None
        owner = "for sessions without a workspace" if key is None else f"of workspace {key}"
        return SandboxUnavailable(
            f"the container {owner} ended {recent} times within {WITHIN_S / 60:g} minutes, and is not started again",
            f"sm sandbox logs, then sm sandbox rm {'default' if key is None else key} --force",
        )

    async def wait(self, key: str | None) -> None:
        """Wait before the container is made again: 1 s after a first crash, 2 s after a second.

        Raises SandboxUnavailable after the third.
        """
        if (problem := self.problem(key)) is not None:
            raise problem
        if recent := self._recent(key):
            pause_s = _FIRST_PAUSE_S * 2 ** (len(recent) - 1)
            await asyncio.sleep(max(0.0, recent[-1] + pause_s - time.monotonic()))

    def _recent(self, key: str | None) -> list[float]:
        oldest = time.monotonic() - WITHIN_S
        recent = [at for at in self._times.get(key, ()) if at > oldest]
        if recent:
            self._times[key] = recent
        else:
            self._times.pop(key, None)
        return recent
