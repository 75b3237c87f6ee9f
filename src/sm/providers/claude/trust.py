"""Answers questions of claude in advance, in its files: trust in a directory, and permission to bypass permissions."""

import json
import os
import re
import stat
import time
from typing import Any

from sm.errors import ExternalError, IllegalState, NotPermitted
from sm.providers.base import TrustEntry
from sm.providers.claude.home import ClaudeHome, read_object, trusted_by
from sm.providers.claude.readiness import BYPASS_SETTING

_TRIES = 5
_STABLE_S = 1.0
"""Time for which an entry must remain while claude processes run. A running claude may read the file, write back its
copy later, and so undo an entry that was written in between."""
_LOOK_EVERY_S = 0.05
_LONE = re.compile("[\ud800-\udfff]")


def trust(home: ClaudeHome, directory: str) -> TrustEntry:
    """Trust `directory` (absolute, without links) and below. Idempotent. Raises SmError.

    After the return, no running claude has undone the entry.
    """
    covered = _write(home, directory)
    running = [] if covered is not None else home.running_pids()
    if running:
        _write_until_kept(home, directory, running)
    return TrustEntry(home.state, covered or directory, changed=covered is None, running=tuple(running))


def accept_bypass(home: ClaudeHome) -> TrustEntry:
    """Allow claude, in the user's settings, to bypass permissions. Idempotent. Raises SmError."""
    for _ in range(_TRIES):
        path = os.path.realpath(home.settings)  # keep links of the user's dotfiles
        try:
            settings, status = read_object(path)
        except FileNotFoundError:
            settings, status = {}, None
        except OSError as error:
            raise ExternalError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
        if settings.get(BYPASS_SETTING) is True:
            return TrustEntry(path, "", changed=False)
        settings[BYPASS_SETTING] = True
        _make_directory(os.path.dirname(path))
        if _replace(path, status, _text(settings)):
            return TrustEntry(path, "", changed=True)
    raise ExternalError(f"{path} keeps changing", "end the running claude processes, then try again")


def _make_directory(path: str) -> None:
    """Make the directory of claude's settings, as claude does when it writes them first."""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
    except OSError as error:
        raise ExternalError(f"cannot create {path}: {(error.strerror or str(error)).lower()}") from None


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
    raise ExternalError(f"{path} keeps changing", "end the running claude processes, then try again")


def _write_until_kept(home: ClaudeHome, directory: str, running: list[int]) -> None:
    """Rewrite the entry until no running claude undoes it. Raises IllegalState if one always does."""
    for _ in range(_TRIES):
        if _is_kept(home, directory):
            return
        _write(home, directory)
    if not _is_kept(home, directory):
        raise IllegalState(
            f"running claude processes (pid {', '.join(map(str, running[:5]))}) "
            f"keep overwriting the change to {home.state}",
            "end these processes first, or answer claude's question in its terminal: sm attach SESSION",
        )


def _is_kept(home: ClaudeHome, directory: str) -> bool:
    deadline = time.monotonic() + _STABLE_S
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
            f"{path} does not exist: claude has never been started by this user",
            "start claude once in a terminal: claude",
        ) from None
    except OSError as error:
        raise ExternalError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None


def _add(state: dict[str, Any], directory: str, path: str) -> None:
    projects = state.setdefault("projects", {})
    entry = projects.setdefault(directory, {}) if isinstance(projects, dict) else None
    if not isinstance(entry, dict):
        raise ExternalError(f"{path} has an unknown format: `projects` is not as in claude 2.1")
    entry["hasTrustDialogAccepted"] = True


def _text(state: dict[str, Any]) -> bytes:
    """Format as claude does: indented by two spaces, with only lone surrogates escaped."""
    text = json.dumps(state, indent=2, ensure_ascii=False)
    return _LONE.sub(lambda half: f"\\u{ord(half.group()):04x}", text).encode()


def _replace(path: str, before: os.stat_result | None, content: bytes) -> bool:
    """Replace the file atomically. False if the file changed since the status `before` (None without a file)."""
    if before is not None and before.st_uid != os.geteuid():
        raise NotPermitted(f"{path} belongs to user id {before.st_uid}", "run sm as the owner of the file")
    new = f"{path}.sm-{os.getpid()}"
    try:
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(fd, "wb") as file:
                if before is not None:
                    os.fchmod(fd, stat.S_IMODE(before.st_mode))
                file.write(content)
                file.flush()
                os.fsync(fd)
            if _version(path) != (None if before is None else _version_of(before)):
                os.unlink(new)
                return False
            os.rename(new, path)
        except BaseException:
            os.unlink(new)
            raise
    except OSError as error:
        raise ExternalError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from None
    return True


def _version(path: str) -> tuple[int, int, int] | None:
    try:
        return _version_of(os.stat(path))
    except FileNotFoundError:
        return None


def _version_of(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_mtime_ns, status.st_size
