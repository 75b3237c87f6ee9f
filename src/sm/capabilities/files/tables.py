"""The files of the operator in the database, with a copy of all of them in memory."""

from collections.abc import Mapping

from sm.capabilities.files.model import OperatorFile
from sm.errors import UsageError
from sm.store import Schema, Store, Transaction
from sm.store.connection import Read
from sm.store.part import PartWrites, TablePart
from sm.store.rows import RowTable, insertion

_SCHEMA = Schema(
    "files",
    (
        # `session_id`: null for a file that no message and no task has named yet.
        """CREATE TABLE files (
            id TEXT PRIMARY KEY,
            name TEXT NOT NULL,
            size INTEGER NOT NULL,
            media_type TEXT NOT NULL,
            created_at TEXT NOT NULL,
            session_id TEXT,
            message_id INTEGER
        ) WITHOUT ROWID""",
        "CREATE INDEX files_of ON files (session_id) WHERE session_id IS NOT NULL",
    ),
)
_FILES = RowTable("files", OperatorFile)
FileRows = Mapping[str, OperatorFile]
"""By id."""


def unused(rows: FileRows, file_id: str) -> OperatorFile:
    """The file, which no message has named yet. Raises UsageError."""
    file = rows.get(file_id)
    if file is None:
        raise UsageError(f"files: no such file: {file_id[:40]}", "upload it again")
    if file.is_used:
        raise UsageError(f"files: {file.name} ({file.id}) was sent already", "upload it again")
    return file


class FileReads:
    """Reads files, as committed."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def rows(self) -> FileRows:
        rows: FileRows = PART.rows_of(self._store.mail.open)
        return rows


class FileWrites(PartWrites):
    _tx: Transaction

    def find(self, file_id: str) -> OperatorFile | None:
        file: OperatorFile | None = self.rows.get(file_id)
        return file

    def put(self, file: OperatorFile) -> None:
        """Insert the file, or replace the one with its id."""
        self._tx.write(*insertion(_FILES.name, _FILES.row(file), verb="INSERT OR REPLACE"))
        self.keep({**self.rows, file.id: file})

    def erase(self, file: OperatorFile) -> None:
        self._tx.write("DELETE FROM files WHERE id = ?", (file.id,))
        self.keep({id: kept for id, kept in self.rows.items() if id != file.id})

    def forget(self, session_id: str) -> None:
        """Erase the files of the session. Its directory goes with its terminal (`FileKeeper`)."""
        self._tx.write("DELETE FROM files WHERE session_id = ?", (session_id,))
        self.keep({id: kept for id, kept in self.rows.items() if kept.session_id != session_id})


class FileTable(TablePart[FileReads, FileWrites]):
    schema = _SCHEMA

    async def load(self, read: Read) -> FileRows:
        rows = map(_FILES.load, await read(f"{_FILES.select} ORDER BY id", ()))
        return {file.id: file for file in rows}

    def reads(self, store: Store) -> FileReads:
        return FileReads(store)

    def writes(self, transaction: Transaction) -> FileWrites:
        return FileWrites(self, transaction)


PART = FileTable()
