"""Keeps the output of an ended session's terminal as a file: `archives/ID.txt`, 0600 in a directory of 0700."""

import asyncio
import errno
import os
from collections import deque
from contextlib import suppress

from sm.errors import ExternalError, StorageFull
from sm.terminals.base import Screen

_LINES_MAX = 50_000
_CLOCK_STEP_S = 0.1
"""The times of files come from a coarser clock than other times, and may be a few milliseconds behind."""


class Archives:
    def __init__(self, directory: str, screen: Screen) -> None:
        self._directory = directory
        self._screen = screen

    def path(self, session_id: str) -> str:
        return f"{self._directory}/{session_id}.txt"

    async def keep(self, session_id: str, terminal: str) -> str | None:
        """Write the terminal's output. Return the reason for a failed write.

        Raises NoTerminal, NoServer, and StorageFull when the disk is full: try again later.
        """
        lines = await self._screen.capture(terminal, _LINES_MAX)
        try:
            await asyncio.to_thread(_write, self._directory, self.path(session_id), lines)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StorageFull(
                    f"the disk is full: the output of session {session_id} could not be saved in {self._directory}",
                    "free disk space",
                ) from None
            return f"its output could not be saved in {self._directory}: {error.strerror}"
        return None

    async def is_kept(self, session_id: str, since_s: float) -> bool:
        """True if the output was saved after `since_s` (seconds since the epoch): a restore makes it outdated."""
        return await asyncio.to_thread(_is_newer, self.path(session_id), since_s)

    async def read(self, session_id: str, lines: int, since_s: float) -> list[str] | None:
        """The last `lines` saved lines; None unless `is_kept`. Raises ExternalError for an unreadable file."""
        try:
            return await asyncio.to_thread(_read, self.path(session_id), lines, since_s)
        except OSError as error:
            raise ExternalError(
                f"cannot read the saved output of session {session_id}: {error.strerror}"
            ) from None

    async def remove(self, session_id: str) -> None:
        with suppress(OSError):
            os.unlink(self.path(session_id))


def _is_newer(path: str, since_s: float) -> bool:
    try:
        return os.stat(path).st_mtime >= since_s - _CLOCK_STEP_S
    except OSError:
        return False


def _read(path: str, lines: int, since_s: float) -> list[str] | None:
    if not _is_newer(path, since_s):
        return None
    with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
        return [line.removesuffix("\n") for line in deque(file, lines)]


def _write(directory: str, path: str, lines: list[str]) -> None:
    os.makedirs(directory, 0o700, exist_ok=True)
    new = path + ".new"
    with suppress(FileNotFoundError):
        os.unlink(new)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.writelines(f"{line}\n" for line in lines)
        os.rename(new, path)
    except OSError:
        with suppress(OSError):  # a partial file would only keep the disk full
            os.unlink(new)
        raise
