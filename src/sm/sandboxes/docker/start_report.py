"""Reads why an agent did not start in a container: the report of its launch script, or the words of the engine."""

import os
import stat

from sm.core.text import folded
from sm.errors import AgentStartFailed, ProgramMissing
from sm.linux.files import directory_below, read_file, read_or_empty
from sm.linux.process_root import ProcessRoot
from sm.paths import INSIDE_HOME, INSIDE_SCRATCH
from sm.sandboxes.images import missing_program_hint
from sm.sandboxes.launch import FAILED, StartFailure, parse_failure

FOLDER = ".sm"
"""The directory of reports, in the home directory of the container. Agents can write to it."""
NO_SCRATCH = 124
"""The script's exit code when it cannot make the session's scratch directory."""
_REPORT_MAX_BYTES = 64 << 10
_WORDS_MAX_BYTES = 4096


def report_inside(session_id: str) -> str:
    """The path of a session's report inside."""
    return f"{INSIDE_HOME}/{FOLDER}/{session_id}{FAILED}"


def read_report(home: str, session_id: str, mark: str) -> StartFailure | None:
    """The report of the start with this mark; None without one. `home`: the container's home directory on the host.

    The report comes from an agent's files: it is text for people, and nothing else.
    """
    try:
        with directory_below(home, (FOLDER,)) as directory:
            content = read_file(session_id + FAILED, _REPORT_MAX_BYTES, directory=directory)
    except OSError:
        return None
    failure = parse_failure(content.data)
    return failure if failure is not None and failure.mark == mark else None


def remove_report(home: str, session_id: str) -> None:
    """Idempotent."""
    try:
        with directory_below(home, (FOLDER,)) as directory:
            os.unlink(session_id + FAILED, dir_fd=directory)
    except OSError:  # none, or an agent has put something else there
        pass


def explained(failure: StartFailure, session_id: str, init: int, user: tuple[int, int]) -> AgentStartFailed:
    """The error for a report. `init`: the pid of the container's first process. Blocks."""
    if failure.status == NO_SCRATCH:
        return AgentStartFailed(
            f"cannot make the directory {INSIDE_SCRATCH}/{session_id} in the sandbox",
            "sm sandbox status; the scratch space may be full",
        )
    try:
        with ProcessRoot(init) as root:
            error = failure.error(_FilesInside(root, user))
    except OSError:
        return AgentStartFailed(
            f"the agent of session {session_id} did not start: exit code {failure.status}"
        )
    if isinstance(error, ProgramMissing):
        hints = (missing_program_hint(os.fsdecode(failure.program)), error.hint)
        error = ProgramMissing(error.message, "; ".join(filter(None, hints)))
    return error


def words_of_engine(path: str) -> str:
    """The complaint of the engine's command in the file at `path`, in one line; empty without one."""
    text = read_or_empty(path, _WORDS_MAX_BYTES).decode("utf-8", "replace")
    return folded(" ".join(text.split()), 400)


class _FilesInside:
    """`FileView` of a container, for processes of `user` (uid, gid)."""

    def __init__(self, root: ProcessRoot, user: tuple[int, int]) -> None:
        self._root = root
        self._user = user

    def status(self, path: bytes, *, follow: bool = True) -> os.stat_result:
        return self._root.status(path, follow=follow)

    def is_executable(self, path: bytes) -> bool:
        try:
            status = self.status(path)
        except OSError:
            return False
        if status.st_uid == self._user[0]:
            return bool(status.st_mode & stat.S_IXUSR)
        return bool(status.st_mode & (stat.S_IXGRP if status.st_gid == self._user[1] else stat.S_IXOTH))

    def first_line(self, path: bytes) -> bytes:
        with self._root.regular_file(path) as fd:
            return os.read(fd, 4096).partition(b"\n")[0]
