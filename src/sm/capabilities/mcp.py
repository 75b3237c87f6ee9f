"""Files of MCP servers, as they lie about: what each says, and which part of the user's file is a project's.

Agents write some of them, so each is read within bounds, and only what is used of one is looked at and kept. A file
is read again only when it has changed; what is kept is never written to.
"""

import os
import stat
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from sm.core.text import folded
from sm.errors import UsageError

Server = Mapping[str, Any]
"""The block of one server, as a file has it."""
Servers = Mapping[str, Server]

PROJECT_FILE_MAX = 1024 * 1024
"""Bytes. Agents write there."""
USER_FILE_MAX = 64 * 1024 * 1024
"""Bytes. claude keeps much else in that file, and it is the user's alone."""
NAME_SHOWN = 64

_CHANGING_S = 0.05  # claude rewrites its file while it runs; a reader may meet it half written
_TRIES = 20
_SAME_TIME_NS = 100_000_000  # a change so soon after the last may leave the times of the file as they are
_KEPT_MAX_BYTES = 4 * 1024 * 1024  # of JSON; as objects it is up to twenty times of that
_KEPT_EACH_BYTES = 1024  # what a file costs that says nothing
_DEPTH_MAX = 50
_GIT_FILE_MAX = 8 * 1024
_NOT_KEPT: Server = {}


class Files:
    """What files of MCP servers say. For threads.

    Each method returns the servers by name, none where there is no such file, and raises UsageError for what is no
    regular file, is too large, or does not say it as it should.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, ...], tuple[tuple[int, ...], Servers, int]] = {}
        self._kept_bytes = 0

    def users(self, path: str, project: str) -> Servers:
        """Those of the user, for everywhere and, over them, for one project; nothing else of the file counts."""

        def used(value: Mapping[str, Any]) -> Servers:
            projects = value.get("projects")
            own = projects.get(project) if isinstance(projects, dict) else None
            return {**_checked(path, value), **(_checked(path, own) if isinstance(own, dict) else {})}

        return self._read((path, "user", project), USER_FILE_MAX, used, follow=True, tries=_TRIES)

    def projects(self, path: str) -> Servers:
        """Those of a project, which may be no link: agents can write there."""
        return self._read((path, "project"), PROJECT_FILE_MAX, lambda value: _checked(path, value))

    def names(self, path: str, *, follow: bool) -> Servers:
        """Their names alone, without the blocks."""

        def named(value: Mapping[str, Any]) -> Servers:
            return dict.fromkeys(_servers(path, value), _NOT_KEPT)

        return self._read((path, f"names {follow}"), PROJECT_FILE_MAX, named, follow=follow)

    def _read(
        self,
        key: tuple[str, ...],
        max_bytes: int,
        used: Callable[[Mapping[str, Any]], Servers],
        *,
        follow: bool = False,
        tries: int = 1,
    ) -> Servers:
        path = key[0]
        opened = _open(path, follow=follow)
        if opened is None:
            return {}
        try:
            info = os.fstat(opened)
            if not stat.S_ISREG(info.st_mode):
                raise _unusable(path, "is no regular file")
            with self._lock:
                kept = self._kept.get(key)
            if kept is not None and kept[0] == _stamp(info):
                return kept[1]
            with open(opened, "rb", closefd=False) as file:
                content = file.read(max_bytes + 1)
        finally:
            os.close(opened)
        if len(content) > max_bytes:
            raise _unusable(path, f"is larger than {max_bytes // 1024} KiB")
        try:
            value = orjson.loads(content.removeprefix(b"\xef\xbb\xbf"))
        except orjson.JSONDecodeError as error:
            if tries > 1 and _stamp(info) != _a_moment_later(path):
                return self._read(key, max_bytes, used, follow=follow, tries=tries - 1)
            at = f"line {error.lineno}, column {error.colno}"
            raise _unusable(path, f"is no JSON: {error.msg} ({at})") from None
        if not isinstance(value, dict):
            raise _unusable(path, "holds no JSON object")
        said = used(value)
        if time.time_ns() - max(info.st_mtime_ns, info.st_ctime_ns) >= _SAME_TIME_NS:
            self._keep(key, _stamp(info), said)
        return said

    def _keep(self, key: tuple[str, ...], stamp: tuple[int, ...], said: Servers) -> None:
        size = _KEPT_EACH_BYTES + len(orjson.dumps(said))
        with self._lock:
            before = self._kept.pop(key, None)
            self._kept_bytes += size - (0 if before is None else before[2])
            self._kept[key] = stamp, said, size
            while self._kept_bytes > _KEPT_MAX_BYTES:
                self._kept_bytes -= self._kept.pop(next(iter(self._kept)))[2]


def _stamp(info: os.stat_result) -> tuple[int, ...]:
    return info.st_dev, info.st_ino, info.st_mtime_ns, info.st_ctime_ns, info.st_size


def _a_moment_later(path: str) -> tuple[int, ...] | None:
    time.sleep(_CHANGING_S)
    try:
        return _stamp(os.stat(path))
    except OSError:
        return None


def _open(path: str, *, follow: bool) -> int | None:
    # O_NONBLOCK: a FIFO would keep its reader until somebody writes.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW)
    try:
        return os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        link = not follow and os.path.islink(path)
        reason = "is a link, and agents can write there" if link else f"cannot be read: {error.strerror}"
        raise _unusable(path, reason) from None


def _unusable(path: str, reason: str) -> UsageError:
    return UsageError(
        f"the MCP servers of {folded(path, 400)} cannot be used: it {reason}", "repair or remove that file"
    )


def _servers(path: str, value: Mapping[str, Any]) -> Servers:
    servers = value.get("mcpServers")
    if servers is None:
        return {}
    if not isinstance(servers, dict):
        raise _unusable(path, "has mcpServers that are no object")
    return servers


def _checked(path: str, value: Mapping[str, Any]) -> Servers:
    servers = _servers(path, value)
    for name, server in servers.items():
        trouble = _trouble(server)
        if trouble is not None:
            raise _unusable(path, f"has an MCP server {folded(name, NAME_SHOWN)!r} {trouble}")
    return servers


def _trouble(server: Any) -> str | None:
    """What is wrong with the block of one server. What is not known here is left to the agent CLI."""
    if not isinstance(server, dict):
        return "that is no object"
    if _deeper(server, _DEPTH_MAX):
        return "that is nested too deep"
    if server.get("type", "stdio") == "stdio" and "url" not in server:
        command = server.get("command")
        if not isinstance(command, str) or not command:
            return "without a command"
    elif not isinstance(server.get("url", ""), str):
        return "whose url is no text"
    if not isinstance(server.get("command", ""), str):
        return "whose command is no text"
    arguments = server.get("args", [])
    if not isinstance(arguments, list) or not all(isinstance(each, str) for each in arguments):
        return "whose args are no list of texts"
    environment = server.get("env", {})
    if not isinstance(environment, dict) or not all(isinstance(each, str) for each in environment.values()):
        return "whose env is no object of texts"  # claude leaves such a server out, without a word (measured)
    return None


def _deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_deeper(each, levels - 1) for each in inner)


# ------------------------------------------------------------------------------------------------------- the project


def project_of(around: Sequence[str]) -> str:
    """The directory under which claude keeps what a user has set for one project (measured).

    The repository, for a worktree the one that it belongs to; else where it is. `around`: nearest first.
    """
    top = next((each for each in around if os.path.lexists(f"{each}/.git")), None)
    return around[0] if top is None else _repository(top) or top


def _repository(worktree: str) -> str | None:
    """What a linked worktree belongs to; None for everything else.

    Agents can write its `.git`. So it counts, as for claude, only where the repository says the same, and what comes
    of it selects no more than a part of the user's own file, and skills to turn off.
    """
    said = _line(f"{worktree}/.git")
    if not said.startswith("gitdir:"):
        return None
    own = os.path.realpath(os.path.join(worktree, said.removeprefix("gitdir:").strip()))
    common, back = _line(f"{own}/commondir"), _line(f"{own}/gitdir")
    if not common or os.path.realpath(os.path.join(own, back)) != f"{worktree.rstrip('/')}/.git":
        return None
    common = os.path.realpath(os.path.join(own, common))
    if os.path.dirname(own) != f"{common}/worktrees":
        return None
    return os.path.dirname(common) if os.path.basename(common) == ".git" else common


def _line(path: str) -> str:
    """The text of a small regular file; empty: there is none, or none that names a file."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW)
    except OSError:
        return ""
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            return ""
        with open(opened, "rb", closefd=False) as file:
            content = file.read(_GIT_FILE_MAX + 1)
    except OSError:
        return ""
    finally:
        os.close(opened)
    return "" if len(content) > _GIT_FILE_MAX or b"\0" in content else os.fsdecode(content).strip()
