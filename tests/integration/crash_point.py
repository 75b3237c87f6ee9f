"""Kills a daemon at a crash point: `CLASS.METHOD before|after N` is the N-th call of the method.

With `SIGSTOP` as a fourth word the daemon suspends itself there, until a test continues it.
"""

import functools
import inspect
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from sm.api.agent_sockets import AgentSockets
from sm.capabilities.archives.collector import ArchiveRecords
from sm.capabilities.archives.keeper import Archives
from sm.capabilities.pairing.pairings import Pairings
from sm.capabilities.worktrees.maker import TreeMaker
from sm.capabilities.worktrees.tree_setup import TreeSetup
from sm.daemon.effect_record import EffectRecord
from sm.messaging.messages import Messages
from sm.monitor.retries import Retries
from sm.sandboxes.docker.containers import Containers
from sm.sandboxes.docker.docker_sandbox import ContainerSandbox
from sm.sandboxes.docker.engine import Engine
from sm.sandboxes.docker.maker import ContainerMaker
from sm.sandboxes.host import HostSandbox
from sm.services import Telegram
from sm.sessions.home_files import HomeFiles
from sm.sessions.next_process import Restarter
from sm.sessions.place_commands import PlaceCommands
from sm.sessions.process_ends import ProcessEnds
from sm.sessions.spawn import Spawner
from sm.sessions.starts import AgentStarts
from sm.state.notices import Notices
from sm.store import Store, Transaction
from sm.store.telegram_rows import TelegramWrites
from sm.terminals.tmux.create import PaneCreator
from sm.terminals.tmux.terminals import Tmux

PARTS: dict[str, type] = {
    part.__name__: part
    for part in (
        AgentSockets,
        ArchiveRecords,
        Archives,
        ContainerMaker,
        Containers,
        ContainerSandbox,
        Engine,
        HomeFiles,
        HostSandbox,
        EffectRecord,
        ProcessEnds,
        Messages,
        Notices,
        Pairings,
        PaneCreator,
        PlaceCommands,
        Restarter,
        Retries,
        Spawner,
        AgentStarts,
        Store,
        Telegram,
        TelegramWrites,
        Tmux,
        Transaction,
        TreeMaker,
        TreeSetup,
    )
}

LOADED_WHEN_NAMED = {"BotClient": "sm.telegram.client", "Topics": "sm.telegram.topics"}
"""Parts whose library most daemons do not load."""


def crash_at(point: str) -> None:
    """Patch the method named by `point`, so that this process sends itself the signal there."""
    *words, last = point.split()
    named = last if last.startswith("SIG") else ""

    async def crash() -> None:
        os.kill(os.getpid(), signal.Signals[named] if named else signal.SIGKILL)

    patch(" ".join(words) if named else point, crash)


def patch(
    point: str, crash: Callable[[], Awaitable[None]], played: Mapping[str, type] | None = None
) -> Callable[[], None]:
    """Patch the method named by `point`, so that it waits for `crash` there. Returns the function that undoes it.

    `played`: the parts of a simulation that stand for those of the point.
    """
    target, when, number = point.split()
    name_of_part, _, name = target.partition(".")
    parts = {**PARTS, **(played or {})}
    part = parts.get(name_of_part) or getattr(import_module(LOADED_WHEN_NAMED[name_of_part]), name_of_part)
    method: Callable[..., Any] = getattr(part, name)
    calls = 0

    async def begin() -> bool:
        """Count a call, and crash before it; return True for a crash after it."""
        nonlocal calls
        calls += 1
        if calls != int(number):
            return False
        if when == "before":
            await crash()
        return when == "after"

    @functools.wraps(method)
    async def dying(*arguments: Any, **options: Any) -> Any:
        crashes_after = await begin()
        result = await method(*arguments, **options)
        if crashes_after:
            await crash()
        return result

    @asynccontextmanager
    async def dying_context(*arguments: Any, **options: Any) -> AsyncIterator[Any]:
        crashes_after = await begin()
        async with method(*arguments, **options) as entered:
            yield entered
        if crashes_after:
            await crash()

    is_context = inspect.isasyncgenfunction(inspect.unwrap(method))
    setattr(part, name, dying_context if is_context else dying)
    return lambda: setattr(part, name, method)
