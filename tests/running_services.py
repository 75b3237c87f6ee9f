"""The services of a daemon in the process of the test: real tmux, a real database, and no socket."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from sm.api.sockets import SOCKET_LIMITS
from sm.config import load
from sm.daemon.main import make_directories, write_command
from sm.daemon.wiring import DaemonParts
from sm.paths import instance_paths
from sm.services import Services
from sm.store import Store
from sm.terminals.tmux.terminals import Tmux
from tests.instance import Instance


@dataclass(frozen=True)
class Running:
    services: Services
    store: Store


@asynccontextmanager
async def running_services(instance: Instance) -> AsyncIterator[Running]:
    """Run the parts that start agents, deliver messages and record ends. Every agent is killed at the end."""
    paths = instance_paths(instance.env)
    make_directories(paths)
    write_command(paths)
    loaded, stopping = load(paths.config), asyncio.Event()
    async with (
        await Store.open(paths.database) as store,
        Tmux(store.instance, loaded.config.tmux, instance.env, umask=0o077, scratch=paths.run) as terminals,
    ):
        parts = DaemonParts(
            paths,
            loaded,
            store,
            terminals,
            agent_bounds=SOCKET_LIMITS,
            containment=None,
            started_s=time.monotonic(),
            stopping=stopping,
        )
        running = (
            parts.outbox.run(),
            parts.watcher.run(None),
            parts.worker.run(),
            parts.timers.run(),
            parts.due_timers.run(),
            parts.waiting.run(),
            parts.dialogs.run(),
            parts.setup_dialogs.run(),
        )
        tasks = [asyncio.create_task(part) for part in running]
        try:
            yield Running(parts.services, store)
            await parts.services.sessions.end_all()
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            parts.observer.close()
            await terminals.retire()
            await parts.sandboxing.close()
            parts.audit.close()
        assert all(isinstance(error, asyncio.CancelledError) for error in ended), ended
