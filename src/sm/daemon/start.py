"""The order of a start: catches up with the time without a daemon, and names what runs until the daemon ends.

The daemon and the simulation in tests/sim start their parts with these functions.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from aiohttp import web

from sm.config import LoadedConfig
from sm.daemon.recovery import recover, recover_later, remove_strays, unverified_sessions
from sm.daemon.spool import replay
from sm.daemon.upkeep import upkeep
from sm.daemon.wiring import DaemonParts
from sm.paths import InstancePaths
from sm.store import Store
from sm.terminals.base import Terminals

Running = Coroutine[Any, Any, object]


async def catch_up(
    paths: InstancePaths, loaded: LoadedConfig, store: Store, parts: DaemonParts, terminals: Terminals
) -> Coroutine[None, None, None] | None:
    """Bring the rows up to date with what happened while no daemon ran.

    Returns what is left of the recovery, which goes on while the daemon serves, or None.
    """
    await remove_strays(paths, store, parts.base.sandbox)
    # Reports first: a session wrote them before recovery finds its process gone.
    await replay(paths, store, parts.sessions.reports, parts.messages.inbox, parts.watch.observer)
    for begin in parts.kernel.at_start:
        await begin()
    await parts.base.sandboxing.adopt()
    sessions = unverified_sessions(store)
    recovered = await recover(sessions, parts.base.ends, terminals, parts.watch.watcher)
    return None if recovered else recover_later(sessions, parts.base.ends, terminals, parts.watch.watcher)


def running_parts(
    paths: InstancePaths, store: Store, parts: DaemonParts, later: Coroutine[None, None, None] | None
) -> dict[str, Running]:
    """Name every part that runs until the daemon ends. The daemon ends with the first of them.

    `later`: what `catch_up` has left.
    """
    return {
        "agent sockets": parts.doors.agent_sockets.keep(),
        "outbox": parts.outbox.run(),
        "watcher": parts.watch.watcher.run(later),
        "unread transcripts": parts.watch.unread_transcripts.run(),
        "cut off": parts.sessions.cut_off.run(),
        "containers": parts.base.sandboxing.engine.containers.run(),
        "processes": parts.base.sandboxing.watch_processes(),
        "store": store.wait_closed(),
        "delivery": parts.messages.worker.run(),
        "timers": parts.messages.timers.run(),
        "due timers": parts.due_timers.run(),
        "configuration": parts.config_file.run(),
        "waiting": parts.sessions.waiting.run(),
        "attached operator": parts.watch.attached.run(),
        "dialogs": parts.messages.dialogs.run(),
        "setup dialogs": parts.messages.setup_dialogs.run(),
        "terminal dialogs": parts.messages.terminal_dialogs.run(),
        "cleanup": parts.sessions.cleanup.run(),
        **{name: run() for name, run in parts.kernel.tasks.items()},
        "transcripts": parts.sessions.transcript_watch.run(),
        "upkeep": upkeep(paths, store, parts.sessions.reports, parts.messages.inbox, parts.watch.observer),
        "program checks": parts.base.program_checks.run(),
        "telegram": parts.doors.telegram.run(),
        "web": parts.doors.web.run(),
    }


async def run_until_one_ends(
    running: Mapping[str, Running], parts: DaemonParts, runner: web.AppRunner
) -> None:
    """Run all until the first of them ends, and raise its error. Then stop serving, and cancel the others."""
    tasks = [asyncio.create_task(part, name=name) for name, part in running.items()]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        await asyncio.gather(parts.doors.agent_sockets.close(), runner.cleanup())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
