"""The order of a start: catches up with the time without a daemon, and names what runs until the daemon ends.

The daemon and the simulation in tests/sim start their parts with these functions.
"""

from collections.abc import Coroutine
from typing import Any

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
    await remove_strays(paths, store, parts.sandbox)
    # Reports first: a session wrote them before recovery finds its process gone.
    await replay(paths, store.sessions, parts.reports, parts.messages, parts.observer)
    for begin in parts.kernel.at_start:
        await begin()
    await parts.sandboxing.adopt()
    sessions = unverified_sessions(store)
    recovered = await recover(sessions, parts.manager, terminals, parts.watcher)
    return None if recovered else recover_later(sessions, parts.manager, terminals, parts.watcher)


def running_parts(
    paths: InstancePaths, store: Store, parts: DaemonParts, later: Coroutine[None, None, None] | None
) -> dict[str, Running]:
    """Name every part that runs until the daemon ends. The daemon ends with the first of them.

    `later`: what `catch_up` has left.
    """
    return {
        "agent sockets": parts.agent_sockets.keep(),
        "outbox": parts.outbox.run(),
        "watcher": parts.watcher.run(later),
        "unread transcripts": parts.unread_transcripts.run(),
        "cut off": parts.cut_off.run(),
        "containers": parts.sandboxing.engine.containers.run(),
        "processes": parts.sandboxing.watch_processes(),
        "store": store.wait_closed(),
        "delivery": parts.worker.run(),
        "timers": parts.timers.run(),
        "due timers": parts.due_timers.run(),
        "configuration": parts.config_file.run(),
        "waiting": parts.waiting.run(),
        "attached operator": parts.attached.run(),
        "dialogs": parts.dialogs.run(),
        "setup dialogs": parts.setup_dialogs.run(),
        "terminal dialogs": parts.terminal_dialogs.run(),
        "cleanup": parts.cleanup.run(),
        **{name: run() for name, run in parts.kernel.tasks.items()},
        "transcripts": parts.transcript_watch.run(),
        "upkeep": upkeep(paths, store, parts.reports, parts.messages, parts.observer),
        "program checks": parts.program_checks.run(),
        "telegram": parts.telegram.run(),
        "web": parts.web.run(),
    }
