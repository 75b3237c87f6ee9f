"""Use cases of files: uploads, shows and deletes files that no message has named yet."""

import asyncio
import secrets

from sm.capabilities.files.disk import FileDisk
from sm.capabilities.files.model import OperatorFile
from sm.capabilities.files.operations import DELETE, SHOW, UPLOAD, FileToUpload
from sm.capabilities.files.rules import checked_name, media_type, size_words
from sm.capabilities.files.settings import FileSettings
from sm.capabilities.files.tables import PART
from sm.errors import ExternalError, IllegalState, LimitReached, NotFound, UsageError
from sm.kernel import OperationCall
from sm.sessions.authorizer import Authorizer
from sm.store import Store
from sm.wire_types.fields import EmptyView
from sm.wire_types.files import FilesView, UploadedFileView

MB = 1_000_000
FILES_MAX = 1_000
"""The limit of unused files, also of small ones."""


class Uploads:
    def __init__(self, settings: FileSettings, store: Store, authorizer: Authorizer, disk: FileDisk) -> None:
        self._settings = settings
        self._store = store
        self._authorizer = authorizer
        self._disk = disk
        self._incoming_bytes = 0
        """The files that are being written."""

    async def show(self, call: OperationCall) -> FilesView:
        self._authorizer.require(call.caller, SHOW.audience, is_read=True)
        files = self._unused()
        return FilesView(
            len(files),
            sum(file.size for file in files),
            self._settings.unused_hours,
            self._settings.unused_max_mb,
        )

    async def upload(self, call: OperationCall) -> UploadedFileView:
        """Keep a file. Raises InvalidText, UsageError, LimitReached and StorageFull."""
        self._authorizer.require(call.caller, UPLOAD.audience)
        asked: FileToUpload = call.arguments
        name, size = checked_name(asked.name), len(call.file)
        if not size:
            raise UsageError(f"the file {name} is empty")
        self._check_room(size)
        file_id = f"f-{secrets.token_hex(8)}"
        self._incoming_bytes += size
        try:
            await asyncio.to_thread(self._disk.keep, file_id, call.file)
            async with self._store.transaction() as tx:
                file = OperatorFile(file_id, name, size, media_type(name), tx.now)
                tx.part(PART).put(file)
        except OSError as error:
            raise ExternalError(f"cannot keep the file {name}: {error.strerror}") from None
        finally:
            self._incoming_bytes -= size
            if file_id not in self._store.part(PART).rows:
                await asyncio.to_thread(self._disk.discard, file_id)
        return UploadedFileView(file.id, file.name, file.size, file.media_type)

    async def delete(self, call: OperationCall) -> EmptyView:
        """Delete an unused file. Raises NotFound, and IllegalState for a file that a message has named."""
        self._authorizer.require(call.caller, DELETE.audience, call.target[:40])
        async with self._store.transaction() as tx:
            file = tx.part(PART).find(call.target)
            if file is None:
                raise NotFound(f"no such file: {call.target[:40]}")
            if file.is_used:
                raise IllegalState(f"the file {file.name} was sent already: it is deleted with its session")
            tx.part(PART).erase(file)
        await asyncio.to_thread(self._disk.discard, file.id)
        return EmptyView()

    def _unused(self) -> list[OperatorFile]:
        return [file for file in self._store.part(PART).rows.values() if not file.is_used]

    def _check_room(self, size: int) -> None:
        files, limit = self._unused(), self._settings.unused_max_mb * MB
        taken = sum(file.size for file in files) + self._incoming_bytes
        if taken + size > limit or len(files) >= FILES_MAX:
            raise LimitReached(
                f"{len(files)} uploaded files ({size_words(taken)}) wait for a message: there is no room for another "
                f"one of {size_words(size)}",
                f"they are deleted after {self._settings.unused_hours} hours; files.unused_max_mb in config.yaml "
                "limits them",
            )
