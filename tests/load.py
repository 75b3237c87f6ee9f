"""Scales the time limits of tests with the load of the machine.

Tests state a limit in seconds of an idle machine. `scaled` converts the limit for the current load. A `Limit` runs
slower while the machine is busy. No test asserts the duration of an action.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar

T = TypeVar("T")

WITHIN_S = 30.0
"""The default limit: ten times the slowest answer of an idle machine."""
_SAMPLE_S = 0.01
_SAMPLE_AGAIN_S = 5.0
_FACTOR_MAX = 20.0
_sampled: tuple[float, float] | None = None


def factor() -> float:
    """How many times slower than an idle machine this machine is now, from 1 to 20. Measured every five seconds."""
    global _sampled
    now = time.monotonic()
    if _sampled is None or now - _sampled[0] > _SAMPLE_AGAIN_S:
        _sampled = now, min(max(1.0, _slowness(), _crowd()), _FACTOR_MAX)
    return _sampled[1]


def _slowness() -> float:
    """Seconds that pass for each second that this thread has a core."""
    began, worked = time.monotonic(), time.thread_time()
    while (spent := time.thread_time() - worked) < _SAMPLE_S:
        pass
    return (time.monotonic() - began) / spent


def _crowd() -> float:
    """Runnable processes per core: now, or in the last minute.

    `_slowness` alone measures too little: the scheduler prefers a process that has slept over one that never sleeps.
    """
    with open("/proc/loadavg", encoding="ascii") as file:
        last_minute, _, _, runnable, _ = file.read().split()
    running = max(float(last_minute), float(runnable.partition("/")[0]))
    return running / len(os.sched_getaffinity(0))


def scaled(limit_s: float = WITHIN_S) -> float:
    """Convert `limit_s` of an idle machine for the current load of this machine."""
    return limit_s * factor()


def option(name: str, limit_s: float = WITHIN_S) -> tuple[str, str]:
    """An option of `sm` with a limit that is longer on a busy machine, such as --wait or --timeout."""
    return name, f"{scaled(limit_s):.0f}"


class Limit:
    """A time limit in seconds of an idle machine, counted from now. It runs slower while the machine is busy."""

    def __init__(self, limit_s: float = WITHIN_S) -> None:
        self._left_s = limit_s
        self._at = time.monotonic()

    @property
    def is_over(self) -> bool:
        now = time.monotonic()
        self._left_s -= (now - self._at) / factor()
        self._at = now
        return self._left_s < 0


failure_checks: list[Callable[[], str | None]] = []
"""Functions that every wait calls. A result other than None is a reason to stop waiting, such as a crashed daemon."""


def _raise_failures(what: str) -> None:
    for check in failure_checks:
        if reason := check():
            raise AssertionError(f"{what}: can no longer happen: {reason}")


def until(found: Callable[[], T | Literal[False] | None], what: str, within_s: float = WITHIN_S) -> T:
    """Call `found` until its result is true, and return the result. Raises AssertionError when the limit is over.

    An error about a missing file or process counts as no result yet.
    """
    limit, pause_s = Limit(within_s), 0.01
    while True:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if answer := found():
                return answer
        _raise_failures(what)
        if limit.is_over:
            raise AssertionError(f"not within {within_s:g} s of an idle machine: {what}")
        time.sleep(pause_s)
        pause_s = min(1.3 * pause_s, 0.2)  # a call may run a command, which takes a whole core


async def until_async(
    found: Callable[[], Awaitable[T | Literal[False] | None]],
    what: str = "the answer",
    within_s: float = WITHIN_S,
) -> T:
    """As `until`, for a coroutine function."""
    limit = Limit(within_s)
    while True:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if answer := await found():
                return answer
        _raise_failures(what)
        if limit.is_over:
            raise AssertionError(f"not within {within_s:g} s of an idle machine: {what}")
        await asyncio.sleep(0.01)
