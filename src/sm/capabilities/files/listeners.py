"""Gives files to sessions, and deletes those of removed sessions."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from sm.capabilities.files.disk import FileDisk
from sm.capabilities.files.model import OperatorFile
from sm.capabilities.files.rules import own_lines
from sm.capabilities.files.tables import PART, unused
from sm.core.models import Session
from sm.core.states import TrustLevel
from sm.errors import ExternalError, UsageError
from sm.paths import InstancePaths
from sm.sessions.attachments import Attacher, Attachment
from sm.sessions.keepers import SessionKeeper
from sm.store import Store, Transaction

log = logging.getLogger(__name__)


class StoredAttachment(Attachment):
    """Files for a message or the task of a session.

    A copy is made before the transaction, so that no agent reads a line about a file that is not there. The upload is
    deleted after it. A crash in between leaves a copy or an upload too many, which the next daemon deletes.
    """

    def __init__(
        self,
        store: Store,
        disk: FileDisk,
        lock: asyncio.Lock,
        session: Session,
        directory: str,
        files: Sequence[OperatorFile],
    ) -> None:
        self._store = store
        self._disk = disk
        self._lock = lock
        self._is_locked = False
        self._session = session
        self._files = files
        self._placed = list[OperatorFile]()
        self.lines = own_lines(directory, files)

    async def place(self) -> None:
        # Until `finish`: another message with the same file must not find, or delete, a copy of this one.
        await self._lock.acquire()
        self._is_locked = True
        for file in self._files:
            self._placed.append(file)
            try:
                await asyncio.to_thread(self._disk.place, self._session, file)
            except FileNotFoundError:
                raise UsageError(f"files: {file.name} ({file.id}) is gone", "upload it again") from None
            except OSError as error:
                raise ExternalError(f"cannot copy the file {file.name}: {error.strerror}") from None

    async def use(self, tx: Transaction, message_id: int | None = None) -> None:
        part = tx.part(PART)
        for file in self._files:
            now = unused(part.rows, file.id)
            part.put(replace(now, session_id=self._session.id, message_id=message_id))

    async def finish(self) -> None:
        try:
            await self._clean()
        finally:
            if self._is_locked:
                self._is_locked = False
                self._lock.release()

    async def _clean(self) -> None:
        rows = self._store.part(PART).rows
        for file in self._placed:
            now = rows.get(file.id)
            is_used = now is not None and now.session_id == self._session.id
            try:
                if is_used:
                    await asyncio.to_thread(self._disk.discard, file.id)
                else:
                    await asyncio.to_thread(self._disk.withdraw, self._session, file)
            except OSError as error:  # the next daemon tries again
                log.warning("could not delete a copy of a file: %s", error.strerror)


class FileAttacher(Attacher):
    def __init__(self, store: Store, paths: InstancePaths, disk: FileDisk) -> None:
        self._store = store
        self._paths = paths
        self._disk = disk
        self._lock = asyncio.Lock()

    def attach(self, session: Session, ids: Sequence[str]) -> Attachment:
        rows = self._store.part(PART).rows
        sandboxed = session.effective_mode is TrustLevel.SANDBOXED
        directory = self._paths.agent_paths(session.id, sandboxed=sandboxed).files
        files = [unused(rows, file_id) for file_id in ids]
        return StoredAttachment(self._store, self._disk, self._lock, session, directory, files)


class FileKeeper(SessionKeeper):
    """Deletes the directory of a removed session."""

    def __init__(self, disk: FileDisk) -> None:
        self._disk = disk

    async def erase(self, session_id: str) -> str | None:
        try:
            await asyncio.to_thread(self._disk.remove, session_id)
        except OSError as error:
            return f"could not delete the files of a session: {error.strerror}"
        return None
