"""Remembers what the process has made itself, so that nothing else is removed: not what a person made meanwhile."""

import fcntl
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sm.capabilities.worktrees.git.long_commands import Cancelled
from sm.capabilities.worktrees.git.scratch import GIT_DIRECTORY
from sm.errors import ExternalError

MARK = "sm-claim"
"""A file in the git directory of what was claimed."""
_LINK_MAX = 8192
_LOOK_S = 0.1


class Claim:
    """A file with the mark of the new worktree, and the branch if that is new too. Outlives the process."""

    def __init__(self, path: str) -> None:
        self._path = path

    def add_worktree(self, own: str) -> None:
        """Claim the worktree with this git directory, which was just made, by a mark in it. Raises OSError."""
        nonce = os.urandom(16).hex()
        self._add(f"worktree {nonce}")
        descriptor = os.open(f"{own}/{MARK}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
        try:
            os.write(descriptor, nonce.encode())
        finally:
            os.close(descriptor)

    def add_copy(self) -> str:
        """Claim a copy that is not made yet. Returns the mark that its git directory gets by `mark`. Raises OSError."""
        nonce = os.urandom(16).hex()
        self._add(f"copy {nonce}")
        return nonce

    def copies(self) -> list[str]:
        """The marks of the claimed copies."""
        return [line.removeprefix("copy ") for line in self._lines() if line.startswith("copy ")]

    def has_copy(self, path: str) -> bool:
        """True for a copy that was claimed."""
        try:
            with open(f"{path}/.git/{MARK}", encoding="ascii", errors="replace") as file:
                return os.path.realpath(path) == path and file.read(_LINK_MAX) in self.copies()
        except OSError:
            return False

    def add_git_directory(self, own: str) -> None:
        """Claim a git directory that will be made, until it names a worktree. Raises OSError."""
        self._add(f"directory {own}")

    def git_directories(self) -> list[str]:
        """The git directories that were claimed before they were made."""
        found = (line.partition("directory ") for line in self._lines())
        return [own for before, word, own in found if word and not before]

    def add_branch(self, branch: str, start: str) -> str:
        """Claim a branch that will be made at this commit. Raises OSError.

        Returns the message for its log, by which `remove_remains` knows it from another branch of that name.
        """
        nonce = os.urandom(8).hex()
        self._add(f"branch {nonce} {start} {branch}")
        return _message(nonce, start)

    def has_worktree(self, path: str) -> bool:
        """True for a worktree that was claimed, and for one of a command of git that had no time to be claimed."""
        if os.path.realpath(path) != path:
            return False
        try:
            with open(f"{path}/.git", encoding="utf-8", errors="surrogateescape") as file:
                own = file.read(_LINK_MAX).strip().removeprefix("gitdir: ")
        except OSError:
            return False
        if own.startswith(
            f"{os.path.realpath(tempfile.gettempdir())}/{GIT_DIRECTORY}"
        ):  # of one command of sm
            return True
        try:
            with open(f"{own}/{MARK}", encoding="ascii", errors="replace") as file:
                return f"worktree {file.read(_LINK_MAX)}" in self._lines()
        except OSError:
            return False

    def start_of(self, branch: str) -> str | None:
        """The commit at which the branch was claimed. None for a branch that was there before."""
        found = self._branch(branch)
        return None if found is None else found[1]

    def message_of(self, branch: str) -> str | None:
        """The first message in the log of a branch that was made by its claim."""
        found = self._branch(branch)
        return None if found is None else _message(*found)

    def _branch(self, branch: str) -> tuple[str, str] | None:
        """The nonce and the start of a claimed branch."""
        for line in self._lines():
            words = line.split(" ", 3)
            if len(words) == 4 and (words[0], words[3]) == ("branch", branch):
                return words[1], words[2]
        return None

    @contextmanager
    def held(self, cancelled: threading.Event, within_s: float | None = None) -> Iterator[None]:
        """Hold the claim alone: an earlier process undoes what it has made before another one begins.

        Raises Cancelled if nobody wants to wait for that any more, ExternalError after `within_s`.
        """
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        began = time.monotonic()
        descriptor = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            while True:
                with suppress(BlockingIOError):
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                if cancelled.wait(_LOOK_S):
                    raise Cancelled
                if within_s is not None and time.monotonic() - began > within_s:
                    raise ExternalError("an earlier process still works in it")
            if (
                cancelled.is_set()
            ):  # while it waited, another process may have made what this one would remove
                raise Cancelled
            yield
        finally:
            os.close(descriptor)

    def finish(self, made: str) -> None:
        """Keep the result, which is one line, for a daemon that did not hear of it. Raises OSError."""
        self._add(f"made {made}")

    def result(self) -> str | None:
        """The result of a process that has finished, or None if none has."""
        found = (line.removeprefix("made ") for line in self._lines() if line.startswith("made "))
        return next(found, None)

    def clear(self) -> None:
        """Claim nothing any more."""
        with suppress(FileNotFoundError):
            os.truncate(self._path, 0)

    def forget(self) -> None:
        """Remove the file, when no process is left that could need it. Does nothing if there is none."""
        for path in (self._path, f"{self._path}.lock"):
            with suppress(FileNotFoundError):
                os.unlink(path)

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


def _message(nonce: str, start: str) -> str:
    return f"branch: Created from {start} by sm ({nonce})"
