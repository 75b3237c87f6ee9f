"""Collects what the archive of an ended session holds: its records in the store, and its transcripts."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from sm.capabilities.archives.files.kept_transcripts import OpenFile
from sm.capabilities.archives.files.reader import SESSION
from sm.capabilities.archives.files.writer import ArchiveContents
from sm.core.timestamps import iso
from sm.linux.file_threads import FileThreads
from sm.monitor.transcripts import FILES_MAX, Root, archive_names, files_of, opened
from sm.monitor.usage import UsageMeter
from sm.providers.base import Provider
from sm.store import Store, durable

_SECRET = frozenset({"token_hash"})


class ArchiveRecords:
    """A `SessionRecords` of the store."""

    def __init__(
        self, store: Store, providers: Mapping[str, Provider], usage: UsageMeter, threads: FileThreads
    ) -> None:
        self._store = store
        self._providers = providers
        self._usage = usage
        self._threads = threads

    async def collect(self, session_id: str) -> ArchiveContents | None:
        session = self._store.sessions.get(session_id)
        if session is None:
            return None
        provider = self._providers[session.provider]
        records = dict(await self._store.records.rows_of(session_id))
        usage = (await self._store.usage.of([session_id])).get(session_id, [])
        tools = await self._store.measures.tools(session_id)
        described = {name: value for name, value in asdict(session).items() if name not in _SECRET}
        files: dict[str, Any] = {
            **records,
            SESSION: {**described, "prompt": await self._store.spawn_prompt(session_id)},
            "usage.json": {"models": [asdict(u) for u in usage], "tools": tools},
        }
        reader = provider.readers.transcripts
        if reader is None or session.transcript is None:
            return ArchiveContents(files)
        below = await self._usage.root_of(session, reader)
        mains = await self._usage.conversations(session, below)
        return ArchiveContents(files, await self._threads.run(session.transcript, _transcripts, mains, below))

    @durable
    async def add_terminal(self, session_id: str, lines: Sequence[str], since_s: float) -> None:
        async with self._store.transaction() as tx:
            session = tx.find(session_id)
            if session is not None:
                for part in tx.parts:
                    part.follow_output(session_id, iso(since_s), lines, session.completed_at or tx.now)


def _transcripts(mains: Sequence[str], below: Root) -> dict[str, OpenFile]:
    """The files of these conversations, by their names in the archive, the newest conversation first. Blocks.

    At most FILES_MAX: an agent decides how many conversations it has.
    """
    found: dict[str, OpenFile] = {}
    names = archive_names(mains)
    for main in reversed(mains):
        for path in files_of(main, FILES_MAX - len(found)):
            beside = os.path.relpath(path, os.path.dirname(main))
            if not beside.startswith(".."):
                name = os.path.join(os.path.dirname(names[main]), beside)
                found[name] = partial(opened, path, below)
        if len(found) >= FILES_MAX:
            break
    return found
