"""Opens the database of an instance, begins a new one, and restores a backup. The caller holds the instance's lock.

An empty file passes every check of SQLite. So a missing or empty database is new only if nothing shows that the
instance had sessions before: a backup, the token of an agent, or a running agent.
"""

import asyncio
import os
import time

from sm.core.dataclass import dataclass
from sm.daemon.lock import instance_lock
from sm.errors import AlreadyRunning, DatabaseRefused, IllegalState, NotFound
from sm.linux.processes import pids_with_variable
from sm.paths import InstancePaths
from sm.store import Store
from sm.store.backup import best_backup, count_sessions, is_blank, restore, set_aside
from sm.store.connection import backups, inspect, lost
from sm.store.migrations import UnknownVersion
from sm.store.part import known_schemas
from sm.store.session_memory import SessionMemory


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of `restore_backup`. `replaced`: the directory of the files that were the database before."""

    backup: str
    sessions: int
    replaced: str | None


async def open_database(
    paths: InstancePaths, *, new: bool, unseen_days: float = 7.0, lately_s: float = SessionMemory.lately_s
) -> Store:
    """Open the instance's database. `new`: begin an empty one in place of a lost or damaged one.

    `unseen_days`: for how long views show sessions as not seen. `lately_s`: as in `SessionMemory`.

    Raises as `Store.open`; DatabaseRefused for a database that was lost; IllegalState for `new` and an intact database.
    """
    if new:
        await _clear(paths.database)
    else:
        await asyncio.to_thread(_refuse_lost, paths)
    unseen_s = unseen_days * 86_400.0
    return await Store.open(paths.database, steady=time.monotonic, lately_s=lately_s, unseen_s=unseen_s)


def _refuse_lost(paths: InstancePaths) -> None:
    path = paths.database
    if not is_blank(path) or (earlier := _earlier_instance(paths)) is None:
        return
    raise lost(path, earlier)


def _earlier_instance(paths: InstancePaths) -> str | None:
    """Evidence that this instance had sessions before."""
    if backups(paths.database):
        return "a backup of it exists"
    if any(name.endswith(".token") for name in os.listdir(paths.launch)):
        return f"{paths.launch} has the tokens of its sessions"
    if pids := pids_with_variable("SM_TOKEN_FILE", f"{paths.launch}/"):
        return f"an agent of it still runs (pid {pids[0]})"
    return None


async def _clear(path: str) -> None:
    if not is_blank(path):
        try:
            await inspect(path, known_schemas())
        except UnknownVersion:
            raise
        except DatabaseRefused:
            pass
        else:
            raise IllegalState(f"database {path} is intact: --new is only for a lost one", "sm daemon start")
    set_aside(path, with_backups=True)


def restore_backup(paths: InstancePaths, chosen: str | None) -> Restored:
    """Replace the database by `chosen`, by default by the newest backup that has sessions.

    Raises NotFound, DatabaseRefused for a damaged backup, IllegalState while a daemon runs.
    """
    path = paths.database
    try:
        with instance_lock(paths):
            backup = chosen or best_backup(path)
            if backup is None:
                raise NotFound(f"database {path} has no readable backup", "sm daemon start --new")
            sessions = count_sessions(backup)
            if sessions is None:
                raise DatabaseRefused(f"{backup} is not an intact database of sm", "sm daemon restore-backup")
            return Restored(backup, sessions, restore(path, backup))
    except AlreadyRunning as running:
        raise IllegalState(f"{running.message}, and uses the database", "sm daemon stop") from None
