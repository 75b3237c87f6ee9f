"""Kills a daemon at a crash point: `CLASS.METHOD before|after N` is the N-th call of the method."""

import functools
import inspect
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from sm.sandboxes.host import HostSandbox
from sm.sessions.manager import Manager
from sm.sessions.spawn import Spawner
from sm.store import Store, Transaction
from sm.terminals.tmux.create import PaneCreator
from sm.terminals.tmux.terminals import Tmux

PARTS = {
    part.__name__: part for part in (HostSandbox, Manager, PaneCreator, Spawner, Store, Tmux, Transaction)
}


def crash_at(point: str) -> None:
    """Let this process die as by `kill -9` at `point`; the part is the real one in everything else."""
    place, when, number = point.split()
    part, _, name = place.partition(".")
    method: Callable[..., Any] = getattr(PARTS[part], name)
    calls = 0

    def begin() -> bool:
        """Whether this is the call to die in."""
        nonlocal calls
        calls += 1
        mine = calls == int(number)
        if mine and when == "before":
            die()
        return mine

    @functools.wraps(method)
    async def dying(*arguments: Any, **options: Any) -> Any:
        mine = begin()
        result = await method(*arguments, **options)
        if mine:
            die()
        return result

    @asynccontextmanager
    async def dying_context(*arguments: Any, **options: Any) -> AsyncIterator[Any]:
        mine = begin()
        async with method(*arguments, **options) as entered:
            yield entered
        if mine:
            die()

    is_context = inspect.isasyncgenfunction(inspect.unwrap(method))
    setattr(PARTS[part], name, dying_context if is_context else dying)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
