"""Keeps what an ended session did: `archives/ID/`, 0700 with files of 0600, written beside it and renamed.

Older versions wrote only the output of the terminal, to `archives/ID.txt`, which stays readable.
"""

import asyncio
import errno
import json
import os
import re
import shutil
import stat
import tarfile
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import IO, Any, Protocol, TypeAlias

from sm.core.archive_retention import ArchiveEntry
from sm.errors import ExternalError, NoServer, NoTerminal, StorageFull
from sm.linux.files import regular_file
from sm.terminals.base import Screen

_LINES_MAX = 50_000
_CLOCK_STEP_S = 0.1
"""The times of files come from a coarser clock than other times, and may be a few milliseconds behind."""
_TERMINAL = "terminal.txt"
_FILE_MAX_BYTES = 256 * 2**20
_PIECE_BYTES = 8 * 2**20
_ID = re.compile(r"[0-9a-f]{8}")
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


OpenFile: TypeAlias = Callable[[], AbstractContextManager[int | None]]
"""Opens a file for reading, as a descriptor; None: it is gone."""


@dataclass(frozen=True, slots=True)
class ArchiveContents:
    """The contents of an archive beside the terminal's output."""

    records: Mapping[str, Any] = field(default_factory=dict)
    """By the name of the file. A `.jsonl` file has one object on each line."""
    transcripts: Mapping[str, OpenFile] = field(default_factory=dict)
    """By the path below `transcripts/`."""


class SessionRecords(Protocol):
    """The records of a session in the store."""

    async def collect(self, session_id: str) -> ArchiveContents | None:
        """None: the session was removed."""

    async def add_terminal(self, session_id: str, lines: Sequence[str]) -> None:
        """Make the terminal's output findable. Idempotent."""


class NoRecords:
    """A `SessionRecords` without any."""

    async def collect(self, session_id: str) -> ArchiveContents | None:
        return ArchiveContents()

    async def add_terminal(self, session_id: str, lines: Sequence[str]) -> None:
        return


class Archives:
    def __init__(self, directory: str, screen: Screen, records: SessionRecords | None = None) -> None:
        self._directory = directory
        self._screen = screen
        self._records = records or NoRecords()
        self.trouble: str | None = None
        """Why the last archive could not be written."""

    def path(self, session_id: str) -> str:
        return f"{self._directory}/{session_id}"

    async def keep(self, session_id: str, terminal: str) -> str | None:
        """Write the session's archive, in place of an earlier one. Return the reason for a failure.

        Without the terminal, the output in the earlier archive stays. Raises TerminalUnreachable, and StorageFull when
        the disk is full: try again later.
        """
        contents = await self._records.collect(session_id)
        if contents is None:
            return None
        lines: list[str] | None
        try:
            lines = await self._screen.capture(terminal, _LINES_MAX)
        except (NoTerminal, NoServer):
            lines = None
        try:
            await asyncio.to_thread(_write, self._directory, session_id, contents, lines)
        except OSError as error:
            reason = f"its archive could not be saved in {self._directory}: {error.strerror}"
            self.trouble = f"session {session_id}: {reason}"
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StorageFull(
                    f"the disk is full: the archive of session {session_id} could not be saved in {self._directory}",
                    "free disk space",
                ) from None
            return reason
        self.trouble = None
        if lines is not None:
            await self._records.add_terminal(session_id, lines)
        return None

    async def is_kept(self, session_id: str, since_s: float) -> bool:
        """True if the output was saved after `since_s` (seconds since the epoch): a restore makes it outdated."""
        return await asyncio.to_thread(_saved_output, self.path(session_id), since_s) is not None

    async def read(self, session_id: str, lines: int, since_s: float) -> list[str] | None:
        """The last `lines` saved lines; None unless `is_kept`. Raises ExternalError for an unreadable file."""
        try:
            return await asyncio.to_thread(_read, self.path(session_id), lines, since_s)
        except OSError as error:
            raise ExternalError(
                f"cannot read the saved output of session {session_id}: {error.strerror}"
            ) from None

    async def remove(self, session_id: str) -> None:
        await asyncio.to_thread(_remove, self.path(session_id))

    def has(self, session_id: str) -> bool:
        """True if there is an archive of any version. Blocks."""
        path = self.path(session_id)
        return _is_directory(path) or os.path.isfile(f"{path}.txt")

    def entries(self) -> list[ArchiveEntry]:
        """Every archive. Blocks."""
        found: dict[str, ArchiveEntry] = {}
        with suppress(OSError), os.scandir(self._directory) as places:
            for place in places:
                name = place.name.removesuffix(".txt")
                if _ID.fullmatch(name) is None:
                    continue
                with suppress(OSError):
                    at_s, size = _measured(place.path)
                    if (other := found.get(name)) is not None:
                        at_s, size = max(at_s, other.at_s), size + other.size_bytes
                    found[name] = ArchiveEntry(name, at_s, size)
        return list(found.values())

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
        with tarfile.open(fileobj=target, mode="w:gz", compresslevel=6) as tar:
            if not _is_directory(path):
                _add(tar, f"{path}.txt", f"{session_id}/{_TERMINAL}")
                return
            for name in _names_below(path):
                _add(tar, f"{path}/{name}", f"{session_id}/{name}")


def _is_directory(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _measured(path: str) -> tuple[float, int]:
    """(time of the last change, bytes) of a file, or of all files in a directory. Follows no link."""
    state = os.lstat(path)
    size = state.st_size
    if stat.S_ISDIR(state.st_mode):
        for place, _, names in os.walk(path):
            for name in names:
                with suppress(OSError):
                    size += os.lstat(f"{place}/{name}").st_size
    return state.st_mtime, size


def _names_below(path: str) -> Iterator[str]:
    for place, directories, names in os.walk(path):
        directories.sort()
        for name in sorted(names):
            yield os.path.relpath(f"{place}/{name}", path)


def _add(tar: tarfile.TarFile, path: str, name: str) -> None:
    with regular_file(path) as descriptor, open(descriptor, "rb", closefd=False) as file:
        state = os.fstat(descriptor)
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode, entry.mtime = state.st_size, 0o600, int(state.st_mtime)
        tar.addfile(entry, file)


def _saved_output(path: str, since_s: float) -> str | None:
    """The file with the output, if it was saved after that time."""
    for file in (f"{path}/{_TERMINAL}", f"{path}.txt"):
        with suppress(OSError):
            if os.lstat(file).st_mtime >= since_s - _CLOCK_STEP_S:
                return file
    return None


def _read(path: str, lines: int, since_s: float) -> list[str] | None:
    saved = _saved_output(path, since_s)
    if saved is None:
        return None
    with (
        regular_file(saved) as descriptor,
        open(descriptor, encoding="utf-8", errors="replace", newline="\n", closefd=False) as file,
    ):
        return [line.removesuffix("\n") for line in deque(file, lines)]


def _remove(path: str) -> None:
    for place in (path, f"{path}.new", f"{path}.old"):
        _delete(place)
    with suppress(OSError):
        os.unlink(f"{path}.txt")


def _delete(path: str) -> None:
    """Delete a directory or a link, not what the link names."""
    if _is_directory(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            os.unlink(path)


def _write(directory: str, session_id: str, contents: ArchiveContents, lines: Sequence[str] | None) -> None:
    os.makedirs(directory, 0o700, exist_ok=True)
    if os.path.islink(directory):
        raise OSError(errno.ELOOP, "it is a link", directory)
    path = f"{directory}/{session_id}"
    new, old = f"{path}.new", f"{path}.old"
    _delete(new)
    try:
        os.mkdir(new, 0o700)
        for name, record in contents.records.items():
            _write_record(f"{new}/{name}", record)
        for name, opened in contents.transcripts.items():
            with opened() as source:
                if source is not None:
                    target = f"{new}/transcripts/{name}"
                    os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
                    _copy(source, target)
        if lines is not None:
            with (
                _new_file(f"{new}/{_TERMINAL}") as descriptor,
                open(descriptor, "w", encoding="utf-8", errors="replace", closefd=False) as file,
            ):
                file.writelines(f"{line}\n" for line in lines)
        else:
            _copy_output(path, f"{new}/{_TERMINAL}")
        if os.path.lexists(path):
            _delete(old)
            os.rename(path, old)
        os.rename(new, path)
    except OSError:
        _delete(new)  # a partial archive would only keep the disk full
        if not os.path.lexists(path):
            with suppress(OSError):
                os.rename(old, path)
        raise
    _delete(old)
    with suppress(OSError):  # of an older version
        os.unlink(f"{path}.txt")


@contextmanager
def _new_file(path: str) -> Iterator[int]:
    descriptor = os.open(path, _NEW_FILE, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _write_record(path: str, record: Any) -> None:
    with (
        _new_file(path) as descriptor,
        open(descriptor, "w", encoding="utf-8", errors="replace", closefd=False) as file,
    ):
        if path.endswith(".jsonl"):
            file.writelines(f"{json.dumps(row, ensure_ascii=False)}\n" for row in record)
        else:
            file.write(json.dumps(record, ensure_ascii=False, indent=2) + "\n")


def _copy(source: int, path: str) -> None:
    """Copy the file as it is now, at most its first `_FILE_MAX_BYTES` bytes."""
    left = min(os.fstat(source).st_size, _FILE_MAX_BYTES)
    with _new_file(path) as target:
        offset = 0
        while left > 0 and (sent := os.sendfile(target, source, offset, min(left, _PIECE_BYTES))):
            offset, left = offset + sent, left - sent


def _copy_output(path: str, target: str) -> None:
    """Take the output over from the earlier archive, with its time."""
    saved = _saved_output(path, 0.0) or _saved_output(f"{path}.old", 0.0)
    if saved is not None:
        with regular_file(saved) as source:
            _copy(source, target)
            state = os.fstat(source)
        os.utime(target, ns=(state.st_atime_ns, state.st_mtime_ns))
