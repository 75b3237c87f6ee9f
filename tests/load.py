"""Scales the time limits of tests by the load of the machine.

A limit in the code of a test is in seconds of an idle machine. `scaled` turns it into seconds of this one, and
`Limit` is a limit that runs slower while the machine is busy. No test asserts how long something took.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar

T = TypeVar("T")

WITHIN_S = 30.0
"""The usual limit: ten times what the slowest answer takes on an idle machine."""
_SAMPLE_S = 0.01
_SAMPLE_AGAIN_S = 5.0
_FACTOR_MAX = 20.0
_sampled: tuple[float, float] | None = None


def factor() -> float:
    """How many times slower than an idle machine this one is now, from 1 to 20. Measured every five seconds."""
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
    """Processes that want a core, for each core: now, or in the last minute.

    A process that has slept is given a core before those that never do, so its own share says too little.
    """
    with open("/proc/loadavg", encoding="ascii") as file:
        last_minute, _, _, runnable, _ = file.read().split()
    wanted = max(float(last_minute), float(runnable.partition("/")[0]))
    return wanted / len(os.sched_getaffinity(0))


def scaled(limit_s: float = WITHIN_S) -> float:
    """`limit_s` of an idle machine in seconds of this one, as busy as it is now."""
    return limit_s * factor()


class Limit:
    """A limit in seconds of an idle machine, from now on: it runs slower while the machine is busy."""

    def __init__(self, limit_s: float = WITHIN_S) -> None:
        self._left_s = limit_s
        self._at = time.monotonic()

    @property
    def is_over(self) -> bool:
        now = time.monotonic()
        self._left_s -= (now - self._at) / factor()
        self._at = now
        return self._left_s < 0


watched: list[Callable[[], str | None]] = []
"""What each wait asks besides: why it can never end, such as a daemon that has crashed. None while it may."""


def _check_watched(what: str) -> None:
    for why in watched:
        if reason := why():
            raise AssertionError(f"{what}: cannot happen any more: {reason}")


def until(found: Callable[[], T | Literal[False] | None], what: str, within_s: float = WITHIN_S) -> T:
    """Ask again until there is an answer, and return it. AssertionError when the limit is over.

    A file or process that is not there yet, or not any more, is no answer yet.
    """
    limit, pause_s = Limit(within_s), 0.01
    while True:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if answer := found():
                return answer
        _check_watched(what)
        if limit.is_over:
            raise AssertionError(f"not within {within_s:g} s of an idle machine: {what}")
        time.sleep(pause_s)
        pause_s = min(1.3 * pause_s, 0.2)  # to ask may take a command, and all of a core


async def until_async(
    found: Callable[[], Awaitable[T | Literal[False] | None]],
    what: str = "the answer",
    within_s: float = WITHIN_S,
) -> T:
    """As `until`, for a question that is asked on the event loop."""
    limit = Limit(within_s)
    while True:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if answer := await found():
                return answer
        _check_watched(what)
        if limit.is_over:
            raise AssertionError(f"not within {within_s:g} s of an idle machine: {what}")
        await asyncio.sleep(0.01)
