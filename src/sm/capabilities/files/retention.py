"""Deletes files that no message has named in time, and what a crash has left (`files:` in the configuration)."""

import asyncio
import logging

from sm.capabilities.files.disk import FileDisk
from sm.capabilities.files.settings import FileSettings
from sm.capabilities.files.tables import PART
from sm.core.timestamps import epoch_s
from sm.errors import SmError
from sm.store import Store

log = logging.getLogger(__name__)

_EVERY_S = 600.0


class FileRetention:
    def __init__(self, settings: FileSettings, store: Store, disk: FileDisk) -> None:
        self._settings = settings
        self._store = store
        self._disk = disk

    async def remove_strays(self) -> None:
        """Delete uploads and copies without a row, and rows without an upload, before the daemon has any upload."""
        rows = self._store.part(PART).rows
        used = dict[str, set[str]]()
        for file in rows.values():
            if file.session_id is not None:
                used.setdefault(file.session_id, set()).add(file.id)
        waiting = {file.id for file in rows.values() if not file.is_used}
        for problem in await asyncio.to_thread(self._disk.remove_strays, waiting, used):
            log.warning("could not delete a file that a crash has left: %s", problem)
        if gone := [id for id in waiting if not await asyncio.to_thread(self._disk.has, id)]:
            await self._erase(gone)

    async def run(self) -> None:
        """Delete old unused files, again and again. Never returns."""
        while True:
            try:
                await self.delete_unused()
            except SmError as error:
                log.warning("could not delete unused files: %s", error.message)
            except Exception:
                log.exception("failed to delete unused files")
            await asyncio.sleep(_EVERY_S)

    async def delete_unused(self) -> None:
        oldest_s = epoch_s(self._store.now()) - self._settings.unused_hours * 3600
        files = self._store.part(PART).rows.values()
        old = [file.id for file in files if not file.is_used and epoch_s(file.created_at) <= oldest_s]
        if old:
            await self._erase(old)
            log.info("deleted %d files that no message has named", len(old))

    async def _erase(self, ids: list[str]) -> None:
        erased = []
        async with self._store.transaction() as tx:
            part = tx.part(PART)
            for file_id in ids:
                file = part.find(file_id)
                if file is not None and not file.is_used:  # a message may have named it meanwhile
                    part.erase(file)
                    erased.append(file_id)
        for file_id in erased:
            await asyncio.to_thread(self._disk.discard, file_id)
