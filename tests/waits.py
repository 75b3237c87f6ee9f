"""Waits of tests. They have no limit of their own: a wait that hangs ends with its test (tests/hard_limit.py)."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Literal, TypeVar

import pytest

T = TypeVar("T")

NEVER_S = 7200.0
"""For a call that demands a limit: longer than a test may take."""
PATIENT = "3600"
"""As NEVER_S, for an option of `sm`."""
_PAUSE_S = 0.01
_PAUSE_MAX_S = 0.2
_LOOKS = 40
"""How often `repeat_until` looks before it acts the second time: for about six seconds."""

failure_checks: list[Callable[[], str | None]] = []
"""Functions that every wait calls. A result other than None is a reason to stop waiting, such as a crashed daemon."""
_waits: list[str | Callable[[], str]] = []


@contextlib.contextmanager
def waiting(what: str | Callable[[], str]) -> Iterator[None]:
    """Name a wait, so that its test says what it waited for when its time is over."""
    _waits.append(what)
    try:
        yield
    finally:
        _waits.remove(what)


def waits() -> str:
    """Say what this process waits for, the innermost last."""
    return "; ".join(what if isinstance(what, str) else what() for what in _waits) or "nothing with a name"


@contextlib.contextmanager
def explained(details: Callable[[], str]) -> Iterator[None]:
    """Add details, such as what a screen shows, to the error of a wait that fails or meets the hard limit."""
    try:
        yield
    except (AssertionError, pytest.fail.Exception) as error:
        raise AssertionError(f"{error}\n{details()}") from None


def raise_failures(what: str) -> None:
    """Raise AssertionError if a reason says that `what` can no longer happen."""
    for check in failure_checks:
        if reason := check():
            raise AssertionError(f"{what}: can no longer happen: {reason}")


def until(found: Callable[[], T | Literal[False] | None], what: str) -> T:
    """Call `found` until its result is true, and return the result.

    An error about a missing file or process counts as no result yet.
    """
    pause_s = _PAUSE_S
    with waiting(what):
        while True:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if answer := found():
                    return answer
            raise_failures(what)
            time.sleep(pause_s)
            pause_s = min(1.3 * pause_s, _PAUSE_MAX_S)


def repeat_until(act: Callable[[], object], found: Callable[[], T | Literal[False] | None], what: str) -> T:
    """As `until`, and call `act` before, and again each time when twice as many looks have found nothing.

    For what a program may lose, such as a key that claude does not read while it draws.
    """
    act()
    looks, left = _LOOKS, _LOOKS

    def look() -> T | Literal[False] | None:
        nonlocal looks, left
        if answer := found():
            return answer
        left -= 1
        if not left:
            act()
            looks *= 2
            left = looks
        return None

    return until(look, what)


async def until_async(
    found: Callable[[], Awaitable[T | Literal[False] | None]], what: str = "the answer"
) -> T:
    """As `until`, for a coroutine function."""
    with waiting(what):
        while True:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if answer := await found():
                    return answer
            raise_failures(what)
            await asyncio.sleep(_PAUSE_S)
