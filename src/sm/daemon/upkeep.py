"""Replays late spooled reports, checkpoints the database log, deletes unreachable rows, makes daily backups.

Also erases the words of removed texts from the index of the search.
"""

import asyncio
import logging
import time

from sm.core.timestamps import iso
from sm.daemon.spool import replay
from sm.errors import StorageFull
from sm.messaging import Inbox
from sm.monitor import Observer
from sm.paths import InstancePaths
from sm.sessions.reports import Reports
from sm.store import Store

log = logging.getLogger(__name__)

_UPKEEP_EVERY_S = 30.0
_BACKUP_EVERY_S = 24 * 3600.0
_BACKUPS_KEPT = 7
_PRUNE_EVERY_S = 3600.0
_FORGET_EVERY_S = 600.0
_UNREACHABLE_FOR_S = 7 * 24 * 3600.0
_REPLAY_EVERY_S = 5.0


async def upkeep(
    paths: InstancePaths, store: Store, reports: Reports, inbox: Inbox, observer: Observer
) -> None:
    """Run until cancelled. Errors are logged, and the next round tries again."""
    last_backup_s = time.time() - _BACKUP_EVERY_S
    next_log_s = next_forget_s = next_prune_s = time.monotonic()
    while True:
        await asyncio.sleep(_REPLAY_EVERY_S)
        try:
            await replay(paths, store, reports, inbox, observer)
            if time.monotonic() < next_log_s:
                continue
            next_log_s = time.monotonic() + _UPKEEP_EVERY_S
            await store.log.merge_search_index()
            await store.log.checkpoint()
            if time.monotonic() >= next_forget_s:
                store.memory.forget_old()
                next_forget_s = time.monotonic() + _FORGET_EVERY_S
            if time.monotonic() >= next_prune_s:
                await store.prune(iso(time.time() - _UNREACHABLE_FOR_S))
                next_prune_s = time.monotonic() + _PRUNE_EVERY_S
            if time.time() - last_backup_s >= _BACKUP_EVERY_S:
                await store.backup(iso(time.time())[:10], _BACKUPS_KEPT)
                last_backup_s = time.time()
        except (StorageFull, OSError) as error:
            log.warning("postponed the upkeep: %s", error)
        except Exception:
            log.exception("failed to run the upkeep")
