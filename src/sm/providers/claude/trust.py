"""Marks a directory as trusted in the state file of claude."""

import json
import os
import re
import stat
import time
from typing import Any

from sm.errors import ExternalError, IllegalState, NotPermitted
from sm.providers.base import Trusted
from sm.providers.claude.home import ClaudeHome, read_object, trusted_by

_TRIES = 5
_STANDS_S = 1.0
"""Time for which an entry must stay while claudes run. A running claude may read the file, then write back its copy and
undo an entry written in between (CC 1)."""
_LOOK_EVERY_S = 0.05
_LONE = re.compile("[\ud800-\udfff]")


def trust(home: ClaudeHome, directory: str) -> Trusted:
    """Trust `directory` (absolute, without links) and below. Idempotent. Raises SmError.

    After the return, no running claude has undone the entry.
    """
    covered = _write(home, directory)
    running = [] if covered is not None else home.running()
    if running:
        _insist(home, directory, running)
    return Trusted(home.state, covered or directory, changed=covered is None, running=tuple(running))


def _write(home: ClaudeHome, directory: str) -> str | None:
    """Write the entry, or return the trusted directory that covers `directory`. An SmError changes nothing."""
    for _ in range(_TRIES):
        path, state, status = _read(home)
        covered = trusted_by(state, directory)
        if covered is not None:
            return covered
        _add(state, directory, path)
        if _replace(path, status, _text(state)):
            return None
    raise ExternalError(f"{path} is being changed all the time", "end the claudes that run, then repeat")


def _insist(home: ClaudeHome, directory: str, running: list[int]) -> None:
    """Rewrite the entry until no running claude undoes it. Raises IllegalState if one always does."""
    for _ in range(_TRIES):
        if _stands(home, directory):
            return
        _write(home, directory)
    if not _stands(home, directory):
        raise IllegalState(
            f"the claudes that run (pid {', '.join(map(str, running[:5]))}) undo it in {home.state}",
            "end them first, or answer where claude asks (sm attach ID, or claude in that directory)",
        )


def _stands(home: ClaudeHome, directory: str) -> bool:
    deadline = time.monotonic() + _STANDS_S
    while True:
        if trusted_by(_read(home)[1], directory) is None:
            return False
        if time.monotonic() >= deadline:
            return True
        time.sleep(_LOOK_EVERY_S)


def _read(home: ClaudeHome) -> tuple[str, dict[str, Any], os.stat_result]:
    """The path of the file, its object and its status. Raises SmError."""
    path = os.path.realpath(home.state)  # keep links of the user's dotfiles
    try:
        return path, *read_object(path)
    except FileNotFoundError:
        raise IllegalState(
            f"there is no {path}: claude has never been started here", "start claude once, in a terminal"
        ) from None
    except OSError as error:
        raise ExternalError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from None


def _add(state: dict[str, Any], directory: str, path: str) -> None:
    projects = state.setdefault("projects", {})
    entry = projects.setdefault(directory, {}) if isinstance(projects, dict) else None
    if not isinstance(entry, dict):
        raise ExternalError(f"{path} has an unknown form: its `projects` are not those of claude 2.1")
    entry["hasTrustDialogAccepted"] = True


def _text(state: dict[str, Any]) -> bytes:
    """Format as claude does: indent of two, no ASCII escapes, escaped lone surrogates."""
    text = json.dumps(state, indent=2, ensure_ascii=False)
    return _LONE.sub(lambda half: f"\\u{ord(half.group()):04x}", text).encode()


def _replace(path: str, before: os.stat_result, content: bytes) -> bool:
    """Replace the file atomically. False if the file changed since the status `before`."""
    if before.st_uid != os.geteuid():
        raise NotPermitted(f"{path} belongs to user {before.st_uid}", "run sm as its owner")
    new = f"{path}.sm-{os.getpid()}"
    try:
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(fd, "wb") as file:
                os.fchmod(fd, stat.S_IMODE(before.st_mode))
                file.write(content)
                file.flush()
                os.fsync(fd)
            now = os.stat(path)
            if (now.st_ino, now.st_mtime_ns, now.st_size) != (
                before.st_ino,
                before.st_mtime_ns,
                before.st_size,
            ):
                os.unlink(new)
                return False
            os.rename(new, path)
        except BaseException:
            os.unlink(new)
            raise
    except OSError as error:
        raise ExternalError(f"{path} cannot be written: {(error.strerror or str(error)).lower()}") from None
    return True
