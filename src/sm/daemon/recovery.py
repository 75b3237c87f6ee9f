"""Compares the stored sessions with processes and terminals after a start of the daemon, and corrects them."""

import asyncio
import logging
import math
import os
import re
from collections.abc import Mapping, Sequence

from sm.core.backoff import Backoff
from sm.core.lifecycle import is_live
from sm.core.models import Session
from sm.core.statuses import Status
from sm.core.timestamps import epoch_s
from sm.errors import NoServer, StorageFull, TerminalError
from sm.linux.platform import boot_id
from sm.linux.processes import is_alive
from sm.monitor import Watcher
from sm.paths import FILES_SUFFIX, InstancePaths
from sm.sandboxes.base import Sandbox
from sm.sessions.process_ends import ProcessEnds
from sm.state.losses import SERVER_GONE, TERMINAL_CLOSED, LossCause
from sm.store import Store
from sm.terminals.base import Lifecycle, Pane

log = logging.getLogger(__name__)

# Shorter than the wait of a command for a starting daemon. A live server answers within milliseconds.
_ANSWER_WITHIN_S = 3.0
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 15.0
_SESSION_ID = re.compile(r"[0-9a-f]{8}")
_RESTARTED = (LossCause.MACHINE, "the machine restarted")
_NOT_STARTED = frozenset({Status.SPAWNED, Status.STARTING})


def unverified_sessions(store: Store) -> list[Session]:
    """The sessions whose process was not known to be gone when the last daemon ended.

    Excludes sessions in the middle of a start, which the outbox continues.
    """
    return [
        s
        for s in store.sessions.values()
        if s.exit is None and (s.process is not None or (is_live(s.status) and s.status not in _NOT_STARTED))
    ]


async def recover(
    sessions: Sequence[Session], ends: ProcessEnds, terminals: Lifecycle, watcher: Watcher
) -> bool:
    """Watch the live processes of these sessions, and record the end of the others.

    Takes one snapshot of all terminals. NoServer means that every terminal is gone. When the terminals cannot be
    reached, or the disk is full, marks the sessions as unverified and returns False, to call `recover_later`.
    """
    if not sessions:
        return True
    since: float | None = None
    panes: Mapping[str, Pane]
    try:
        async with asyncio.timeout(_ANSWER_WITHIN_S):
            panes = await terminals.snapshot()
            since = await terminals.server_started_s()
    except NoServer:
        panes = {}
    except (TerminalError, TimeoutError) as error:
        log.warning("could not list the terminals: %s", str(error) or "no answer in time")
        watcher.unverified.update(s.id for s in sessions)
        return False
    boot = boot_id()
    watcher.unverified.difference_update(s.id for s in sessions)
    try:
        # In a later call some sessions may have ended, and been restored, since.
        left = [s for s in sessions if ends.has_process(s.id, s.process)]
        await asyncio.gather(*(_settle(s, panes.get(s.id), since, boot, ends, watcher) for s in left))
    except StorageFull as error:
        log.warning("could not record the end of sessions: %s", error.message)
        watcher.unverified.update(s.id for s in sessions)
        return False
    log.info("recovered %d sessions", len(sessions))
    return True


async def recover_later(
    sessions: Sequence[Session], ends: ProcessEnds, terminals: Lifecycle, watcher: Watcher
) -> None:
    """Repeat `recover` until it succeeds, while the daemon serves."""
    backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
    while True:
        await asyncio.sleep(backoff.next_s())
        if await recover(sessions, ends, terminals, watcher):
            return


async def _settle(
    session: Session, pane: Pane | None, since: float | None, boot: str, ends: ProcessEnds, watcher: Watcher
) -> None:
    """`since`: the start of the terminal server, in seconds since the epoch; None without a server."""
    process = session.process
    began_s = epoch_s(session.started_at) if session.started_at else math.inf
    closed = since is not None and began_s >= since
    alive = process is not None and is_alive(process)
    if pane is not None and alive and process is not None:
        watcher.watch(session.id, process, pane)
    elif pane is not None:
        await watcher.finish(session.id, process, pane)
    elif alive and process is not None:
        lost, reason = TERMINAL_CLOSED if closed else SERVER_GONE
        reason = f"{reason}, process {process.pid} still runs"
        await ends.terminal_lost(session.id, process, lost, reason, process_gone=False)
        watcher.watch(session.id, process, None)
    else:
        restarted = process is not None and not process.started.startswith(boot)
        lost, reason = _RESTARTED if restarted else TERMINAL_CLOSED if closed else SERVER_GONE
        await watcher.lost(session.id, process, lost, f"{reason} while the daemon was not running")


async def remove_strays(paths: InstancePaths, store: Store, sandbox: Sandbox) -> None:
    """Remove launch files of sessions that a crash or a full disk kept from being committed."""
    # The files of messages stay as long as the session, which may have left memory.
    found = (name for name in os.listdir(paths.launch) if not name.endswith(FILES_SUFFIX))
    names = {name.partition(".")[0] for name in found}
    for session_id in names:
        if _SESSION_ID.fullmatch(session_id) and session_id not in store.sessions:
            await sandbox.forget(session_id)
