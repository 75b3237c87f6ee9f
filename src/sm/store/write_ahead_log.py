"""Moves the write-ahead log into the database, and erases removed content from both (SQLite, "Write-Ahead Logging")."""

import asyncio
from contextlib import suppress

import aiosqlite

from sm.store.connection import make_room, size_of

_MERGED_PAGES = 200
_BYTES_MAX = 64 * 1024 * 1024


class WriteAheadLog:
    """The log of the database at `path`."""

    def __init__(self, path: str, writer: aiosqlite.Connection, reader: aiosqlite.Connection) -> None:
        self._log_path = path + "-wal"
        self._writer = writer
        self._reader = reader
        self.writing = asyncio.Lock()
        """Held while the writer's connection is in use."""
        self._has_removed_texts = True  # the daemon before may have ended between a removal and the merge
        self._bytes_max = _BYTES_MAX

    async def checkpoint(self) -> None:
        """Move the log into the database without blocking writers (SQLite, PASSIVE)."""
        with suppress(aiosqlite.OperationalError):
            await self._reader.execute_fetchall("PRAGMA wal_checkpoint(PASSIVE)")

    async def limit(self) -> None:
        """Empty a log of more than 64 MB. Only `Committer` calls this, between two commits, while it holds `writing`.

        `checkpoint` never empties a log to which commits are added all the time.
        """
        size = size_of(self._log_path)
        if size > self._bytes_max:
            # Each try waits for a reader that blocks it, and all writers with it.
            self._bytes_max = _BYTES_MAX if await self._empty() else size + _BYTES_MAX

    async def scrub(self) -> None:
        """Also erase removed content from the log, unless a reader blocks that. The index of the search still has it.

        `merge_search_index` erases it there.
        """
        self._has_removed_texts = True
        await self._truncate()

    async def merge_search_index(self) -> None:
        """Erase the words of removed texts from the index of the search and from the log, if any were removed.

        Only a merge drops them. It runs in small steps, between which others commit. FTS5 documentation, section 6.8
        (`merge`): a negative number begins the merge of everything; a step that writes fewer than two rows is the last.
        The steps write the old pages of the index to the log. Raises aiosqlite.Error.
        """
        if not self._has_removed_texts:
            return
        self._has_removed_texts = False
        is_erased = False
        try:
            await self._merge()
            is_erased = await self._truncate()
        finally:
            if not is_erased:
                self._has_removed_texts = True  # the next call tries again

    async def _merge(self) -> None:
        pages = -_MERGED_PAGES
        while True:
            async with self.writing:
                before = self._writer.total_changes
                await self._writer.execute_fetchall(
                    "INSERT INTO search_index (search_index, rank) VALUES ('merge', ?)", (pages,)
                )
                changed = self._writer.total_changes - before
            if changed < 2:
                return
            pages = _MERGED_PAGES

    async def _truncate(self) -> bool:
        """Move the log into the database and empty it (SQLite, TRUNCATE). Returns False if a reader blocks that."""
        async with self.writing:
            return await self._empty()

    async def _empty(self) -> bool:
        """As `_truncate`, while `writing` is held: no commit may come before the log is preallocated again."""
        try:
            ((is_blocked, *_),) = await self._writer.execute_fetchall("PRAGMA wal_checkpoint(TRUNCATE)")
        except aiosqlite.OperationalError:
            return False
        with suppress(
            OSError
        ):  # such as too many open files: the log is emptied, and commits only take longer
            await asyncio.to_thread(make_room, self._log_path)
        return not is_blocked
