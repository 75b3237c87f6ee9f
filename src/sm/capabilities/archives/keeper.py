"""Keeps what an ended session did: `archives/ID.tar`, 0600, written beside it and renamed."""

import asyncio
import errno
import gzip
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, Protocol
from weakref import WeakValueDictionary

from sm.capabilities.archives.files.kept_transcripts import kept_transcripts
from sm.capabilities.archives.files.older_archives import OLDER, TEXT, delete
from sm.capabilities.archives.files.reader import (
    has_archive,
    is_complete,
    is_output_saved,
    read_output,
    stored_files,
)
from sm.capabilities.archives.files.tar_files import TAR, TarWriter
from sm.capabilities.archives.files.writer import NEW, ArchiveContents, write_archive
from sm.capabilities.archives.rules import ArchiveEntry
from sm.errors import ExternalError, LimitReached, NoServer, NoTerminal, StorageFull
from sm.linux.files import read_file, regular_file, replace_private
from sm.sessions.keepers import KeptTranscript, SessionKeeper
from sm.terminals.base import Screen

_ANNOUNCED = ".notice"
"""The end of the file with the time at which the deletion was announced, beside the archive.

A file, and not a row, because an archive outlives the database in which its session was.
"""
_ANNOUNCED_MAX_BYTES = 1_000
_LINES_MAX = 50_000
_CLOCK_STEP_S = 0.02
"""The times of files come from a coarser clock than other times, and may be a few milliseconds behind."""
_EXPORTS_MAX = 2
"""Exports at the same time. Each compresses in a thread, and the threads are few."""
_BLOCK_BYTES = 512
_LEVEL = 6
_PIECE_BYTES = 2**20
_SET_ASIDE = ".deleted"
"""The end of the name of an archive that is being deleted."""
_SLASHES = re.compile(r"(/\.?)+\Z")
_ID = re.compile(r"[0-9a-f]{8}")


def announced_at(path: str, at_s: float) -> float | None:
    """When the deletion of the archive `path` as it was changed at `at_s` was announced, or None. Blocks."""
    with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
        value = json.loads(read_file(path + _ANNOUNCED, _ANNOUNCED_MAX_BYTES).data)
        if value["archive_at_s"] == at_s:
            return float(value["announced_at_s"])
    return None


def announce(path: str, at_s: float, now_s: float) -> None:
    """Keep the time of the announcement. Blocks. Raises OSError."""
    replace_private(path + _ANNOUNCED, json.dumps({"archive_at_s": at_s, "announced_at_s": now_s}).encode())


class SessionRecords(Protocol):
    """The records of a session in the store."""

    async def collect(self, session_id: str) -> ArchiveContents | None:
        """None if the session was removed."""

    async def add_terminal(self, session_id: str, lines: Sequence[str], since_s: float) -> None:
        """Make the output of the process findable that began at `since_s`. Idempotent."""


class NoRecords:
    """A `SessionRecords` without any."""

    async def collect(self, session_id: str) -> ArchiveContents | None:
        return ArchiveContents()

    async def add_terminal(self, session_id: str, lines: Sequence[str], since_s: float) -> None:
        return


class Archives(SessionKeeper):
    def __init__(self, directory: str, screen: Screen, records: SessionRecords | None = None) -> None:
        # With a slash at its end, the name of a link would be that of its target.
        self._directory = _SLASHES.sub("", directory) or "/"
        self._screen = screen
        self._records = records or NoRecords()
        self._locks = WeakValueDictionary[str, asyncio.Lock]()
        """By session: its archive must not be written while or after it is removed."""
        self._exports = 0
        self.trouble: str | None = None
        """Why the last archive could not be written."""
        self._unerased: dict[str, str] = {}
        self._without_space: set[str] = set()
        """Sessions whose archives wait for disk space."""
        self.written_bytes = 0
        """The room that all archives written by this daemon took."""

    def path(self, session_id: str) -> str:
        return f"{self._directory}/{session_id}"

    async def keep(self, session_id: str, terminal: str, since_s: float) -> str | None:
        """Write the session's archive, in place of an earlier one. Return the reason for a failure.

        Transcripts that were cut because the disk is almost full are a failure too, although the archive is written.
        The output of earlier processes stays in the archive, and without the terminal also the newest one.
        """
        async with self._lock(session_id):
            try:
                reason = await self._keep(session_id, terminal, since_s)
            except StorageFull:
                self._without_space.add(session_id)
                raise
            self._without_space.discard(session_id)
            return reason

    async def _keep(self, session_id: str, terminal: str, since_s: float) -> str | None:
        contents = await self._records.collect(session_id)
        if contents is None:
            return None
        lines: list[str] | None
        try:
            lines = await self._screen.capture(terminal, _LINES_MAX)
        except (NoTerminal, NoServer):
            lines = None
        try:
            missing = await asyncio.to_thread(
                write_archive, self._directory, session_id, contents, lines, since_s
            )
            _, size = await asyncio.to_thread(_measured, self.path(session_id) + TAR)
        except OSError as error:
            return self._failure(session_id, error)
        self.written_bytes += size
        if lines is not None:
            await self._records.add_terminal(session_id, lines, since_s)
        if missing:
            return self.set_trouble(
                session_id,
                f"its archive in {self._directory} lacks {missing} bytes of transcripts: free disk space is low",
            )
        self.trouble = None
        return None

    def set_trouble(self, session_id: str, reason: str) -> str:
        """Show the reason for a failure in `trouble` until an archive is written, and return it."""
        self.trouble = f"session {session_id}: {reason}"
        return reason

    def _failure(self, session_id: str, error: OSError) -> str:
        reason = self.set_trouble(
            session_id, f"its archive could not be saved in {self._directory}: {error.strerror}"
        )
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise self._full(session_id) from None
        return reason

    def _full(self, session_id: str) -> StorageFull:
        return StorageFull(
            f"the disk is full: the archive of session {session_id} could not be saved in {self._directory}",
            "free disk space: sm tries again",
        )

    def lack_of_space(self, session_id: str) -> StorageFull | None:
        """The error of the last attempt to write the archive, which waits for disk space, or None if none waits."""
        return self._full(session_id) if session_id in self._without_space else None

    async def is_kept(self, session_id: str, since_s: float) -> bool:
        """True if all output of the process was saved."""
        try:
            return await asyncio.to_thread(_is_kept, self.path(session_id), since_s - _CLOCK_STEP_S)
        except OSError:
            return False

    async def read(self, session_id: str, lines: int, since_s: float) -> list[str] | None:
        try:
            return await asyncio.to_thread(read_output, self.path(session_id), lines, since_s - _CLOCK_STEP_S)
        except OSError as error:
            raise ExternalError(
                f"cannot read the saved output of session {session_id}: {error.strerror}"
            ) from None

    @property
    def erase_trouble(self) -> str | None:
        """Why the archive of a removed session could not be deleted."""
        return next((f"session {id}: {reason}" for id, reason in self._unerased.items()), None)

    async def erase(self, session_id: str) -> str | None:
        """The reason for a failure is in `erase_trouble` until a later call succeeds."""
        reason = await self.remove(session_id)
        if reason is None:
            self._unerased.pop(session_id, None)
        else:
            self._unerased[session_id] = reason
        return reason

    def transcripts(self, session_id: str) -> Iterator[KeptTranscript]:
        return kept_transcripts(self.path(session_id))

    async def set_aside(self, session_id: str) -> str | None:
        """Rename the archive for its removal, so that only `entries` finds it. Return the reason for a failure."""
        async with self._lock(session_id):
            error = await asyncio.to_thread(_set_aside, self.path(session_id))
        return self._undeleted(error)

    async def remove(self, session_id: str) -> str | None:
        """Delete the archive. Return the reason for a failure, after which something of it is left."""
        async with self._lock(session_id):
            error = await asyncio.to_thread(_remove, self.path(session_id))
        return self._undeleted(error)

    def _undeleted(self, error: OSError | None) -> str | None:
        return (
            None
            if error is None
            else f"its archive could not be deleted from {self._directory}: {error.strerror}"
        )

    def _lock(self, session_id: str) -> asyncio.Lock:
        return self._locks.setdefault(session_id, asyncio.Lock())

    def has(self, session_id: str) -> bool:
        """True if there is an archive of any version. Blocks."""
        return has_archive(self.path(session_id))

    def entries(self) -> list[ArchiveEntry]:
        """Every archive, also if it is set aside. Blocks."""
        found: dict[str, ArchiveEntry] = {}
        with suppress(OSError), os.scandir(self._directory) as places:
            for place in places:
                name = place.name.removesuffix(_SET_ASIDE).removesuffix(TEXT).removesuffix(TAR)
                if _ID.fullmatch(name) is None:
                    continue
                with suppress(OSError):
                    at_s, size = _measured(place.path)
                    if (other := found.get(name)) is not None:
                        at_s, size = max(at_s, other.at_s), size + other.size_bytes
                    found[name] = ArchiveEntry(name, at_s, size)
        return list(found.values())

    @contextmanager
    def export(self) -> Iterator[None]:
        """Count an export while the context is open. Raises LimitReached."""
        if self._exports >= _EXPORTS_MAX:
            raise LimitReached("too many archives are being exported", "try again when an export is done")
        self._exports += 1
        try:
            yield
        finally:
            self._exports -= 1

    def packed(self, session_id: str) -> IO[bytes]:
        """The archive as an anonymous tar.gz file, at its beginning. Blocks. Raises as `pack`."""
        file = tempfile.TemporaryFile(dir=self._directory)  # noqa: SIM115 - the caller closes it
        try:
            self.pack(session_id, file)
            file.seek(0)
        except BaseException:
            file.close()
            raise
        return file

    def pack(self, session_id: str, target: IO[bytes]) -> None:
        """Write the archive as a tar.gz file. Blocks. Raises OSError; FileNotFoundError without an archive."""
        path = self.path(session_id)
        if not self.has(session_id):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        with ExitStack() as stack:
            if os.path.lexists(path + TAR):
                whole = stack.enter_context(regular_file(path + TAR))
            else:
                whole = stack.enter_context(tempfile.TemporaryFile(dir=self._directory)).fileno()
                _write_tar(path, session_id, whole)
            file = stack.enter_context(open(whole, "rb", closefd=False))
            file.seek(0)
            packed = stack.enter_context(gzip.GzipFile("", "wb", _LEVEL, target))
            shutil.copyfileobj(file, packed, _PIECE_BYTES)


def _write_tar(path: str, session_id: str, target: int) -> None:
    """Write the archive of an earlier version as a tar file."""
    tar = TarWriter(target, session_id)
    with stored_files(path) as files:
        for name, stored in files.items():
            with stored.open() as part:
                tar.copy(name, part, stored.at_s)
    tar.finish()


def _is_kept(path: str, since_s: float) -> bool:
    return is_output_saved(path, since_s) and is_complete(path)


def _measured(path: str) -> tuple[float, int]:
    """(time of the last change, bytes on the disk) of a file, or of all files in a directory. Follows no link."""
    state = os.lstat(path)
    blocks = state.st_blocks
    if stat.S_ISDIR(state.st_mode):
        for place, _, names in os.walk(path):
            for name in names:
                with suppress(OSError):
                    blocks += os.lstat(f"{place}/{name}").st_blocks
    return state.st_mtime, blocks * _BLOCK_BYTES


def _set_aside(path: str) -> OSError | None:
    try:
        for place in (path, path + TEXT, path + TAR):
            if os.path.lexists(place):
                delete(f"{place}{_SET_ASIDE}")  # from a crash
                os.rename(place, f"{place}{_SET_ASIDE}")
    except OSError as error:
        return error
    return None


def _remove(path: str) -> OSError | None:
    """Return an error if something is left."""
    aside = (f"{end}{_SET_ASIDE}" for end in ("", TEXT, TAR))
    errors = [
        error for end in (*OLDER, TAR, NEW, *aside, _ANNOUNCED) if (error := delete(path + end)) is not None
    ]
    return errors[0] if errors else None
