"""Remembers what the process has made itself, so that nothing else is removed: not what a person made meanwhile."""

import os
from contextlib import suppress


class Claim:
    """A file with the identity of the new directory, and whether the branch is new too. Outlives the process."""

    def __init__(self, path: str) -> None:
        self._path = path

    def add_directory(self, directory: str) -> None:
        """Claim a directory that was just made. Raises OSError."""
        status = os.lstat(directory)
        self._add(f"directory {status.st_dev} {status.st_ino}")

    def add_branch(self, branch: str, start: str) -> None:
        """Claim a branch that was just made at this commit. Raises OSError."""
        self._add(f"branch {start} {branch}")

    def has_directory(self, directory: str) -> bool:
        try:
            status = os.lstat(directory)
        except OSError:
            return False
        return f"directory {status.st_dev} {status.st_ino}" in self._lines()

    def start_of(self, branch: str) -> str | None:
        """The commit at which the branch was made. None for a branch that was there before."""
        for line in self._lines():
            words = line.split(" ", 2)
            if len(words) == 3 and (words[0], words[2]) == ("branch", branch):
                return words[1]
        return None

    def forget(self) -> None:
        """Remove the file. Does nothing if there is none."""
        with suppress(FileNotFoundError):
            os.unlink(self._path)

    def _add(self, line: str) -> None:
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        try:
            os.write(descriptor, os.fsencode(line) + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _lines(self) -> list[str]:
        try:
            with open(self._path, "rb") as file:
                return [os.fsdecode(line) for line in file.read().split(b"\n")]
        except OSError:
            return []
