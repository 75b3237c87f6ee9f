"""Reads MCP server files: the user's file, with a part for each project, and project files.

Agents can write project files, so every read is bounded, and only the parts in use are validated.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from sm.core.items import ItemKind, ProjectItem
from sm.core.text import folded
from sm.errors import UsageError
from sm.linux.files import Content, NotRegular, read_file

Server = Mapping[str, Any]
"""The settings of one server, as in the file."""
Servers = Mapping[str, Server]

PROJECT_FILE_MAX = 1024 * 1024
"""Bytes."""
USER_FILE_MAX = 64 * 1024 * 1024
"""Bytes. Larger, because claude keeps other data in this file and only the user writes it."""
NAME_SHOWN = 64

_CHANGING_S = 0.05  # a running claude rewrites its file, so a read may see half of it
_TRIES = 20
_DEPTH_MAX = 50
_GIT_FILE_MAX = 8 * 1024


def user_servers(path: str, project: str) -> Servers:
    """The user's servers for all directories, overridden by those for `project`.

    All readers in this module block, return servers by name (none if the file does not exist), and raise UsageError for
    a file that is not regular, too large or invalid.
    """

    def used(value: Mapping[str, Any]) -> Servers:
        projects = value.get("projects")
        own = projects.get(project) if isinstance(projects, dict) else None
        return {**_checked(path, value), **(_checked(path, own) if isinstance(own, dict) else {})}

    return _read(path, USER_FILE_MAX, used, follow=True, tries=_TRIES)


def project_servers(path: str) -> Servers:
    """The servers of a project. Raises UsageError for a link, because agents can write there."""
    return _read(path, PROJECT_FILE_MAX, lambda value: _checked(path, value))


def server_items(path: str, servers: Servers) -> tuple[ProjectItem, ...]:
    """The servers of a project file as items to agree to, each with all its settings."""
    options = orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2
    return tuple(
        ProjectItem(ItemKind.MCP_SERVER, name, path, orjson.dumps(server, option=options))
        for name, server in servers.items()
    )


def server_names(path: str, *, follow: bool) -> tuple[str, ...]:
    """The names of the servers in a file. Does not validate the servers."""
    return tuple(_read(path, PROJECT_FILE_MAX, lambda value: _servers(path, value), follow=follow))


def _read(
    path: str,
    max_bytes: int,
    used: Callable[[Mapping[str, Any]], Servers],
    *,
    follow: bool = False,
    tries: int = 1,
) -> Servers:
    content = _content(path, max_bytes, follow=follow)
    if content is None:
        return {}
    if content.cut:
        raise _unusable(path, f"the file is larger than {max_bytes // 1024} KiB")
    try:
        value = orjson.loads(content.data.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        if tries > 1 and _stamp(content.status) != _later_stamp(path):
            return _read(path, max_bytes, used, follow=follow, tries=tries - 1)
        at = f"line {error.lineno}, column {error.colno}"
        raise _unusable(path, f"invalid JSON: {error.msg} ({at})") from None
    if not isinstance(value, dict):
        raise _unusable(path, "the file must contain a JSON object")
    return used(value)


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size


def _later_stamp(path: str) -> tuple[int, ...] | None:
    time.sleep(_CHANGING_S)
    try:
        return _stamp(os.stat(path))
    except OSError:
        return None


def _content(path: str, max_bytes: int, *, follow: bool) -> Content | None:
    try:
        return read_file(path, max_bytes, follow=follow)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except NotRegular:
        raise _unusable(path, "not a regular file") from None
    except OSError as error:
        link = not follow and os.path.islink(path)
        reason = "the file is a link that agents can change" if link else str(error.strerror)
        raise _unusable(path, reason) from None


def _unusable(path: str, reason: str) -> UsageError:
    return UsageError(
        f"cannot read the MCP servers in {folded(path, 400)}: {reason}", "fix the file or remove it"
    )


def _servers(path: str, value: Mapping[str, Any]) -> Servers:
    servers = value.get("mcpServers")
    if servers is None:
        return {}
    if not isinstance(servers, dict):
        raise _unusable(path, "mcpServers must be an object")
    return servers


def _checked(path: str, value: Mapping[str, Any]) -> Servers:
    servers = _servers(path, value)
    for name, server in servers.items():
        trouble = _trouble(server)
        if trouble is not None:
            raise _unusable(path, f"MCP server {folded(name, NAME_SHOWN)!r} {trouble}")
    return servers


def _trouble(server: Any) -> str | None:
    """The mistake in the settings of one server. Unknown keys are left to the agent CLI."""
    if not isinstance(server, dict):
        return "must be an object"
    if _is_deeper(server, _DEPTH_MAX):
        return "is nested too deeply"
    if server.get("type", "stdio") == "stdio" and "url" not in server:
        command = server.get("command")
        if not isinstance(command, str) or not command:
            return "has no command"
    elif not isinstance(server.get("url", ""), str):
        return "must have a string as url"
    if not isinstance(server.get("command", ""), str):
        return "must have a string as command"
    arguments = server.get("args", [])
    if not isinstance(arguments, list) or not all(isinstance(argument, str) for argument in arguments):
        return "must have a list of strings as args"
    environment = server.get("env", {})
    if not isinstance(environment, dict) or not all(isinstance(value, str) for value in environment.values()):
        return "must have an object of strings as env"  # claude ignores such a server silently (measured)
    return None


def _is_deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in inner)


# ------------------------------------------------------------------------------------------------------- the project


def project_of(around: Sequence[str]) -> str:
    """The directory that is the key of claude's per-project user settings (measured).

    The main repository, also for a worktree; without a repository the working directory. `around`: nearest first.
    """
    top = next((path for path in around if os.path.lexists(f"{path}/.git")), None)
    return around[0] if top is None else _repository(top) or top


def _repository(worktree: str) -> str | None:
    """The repository of a linked worktree; None for other directories.

    Agents can write the worktree's `.git`, so the repository must confirm the link, as for claude. The result only
    selects a part of the user's own file, and skills to turn off.
    """
    link = _line(f"{worktree}/.git")
    if not link.startswith("gitdir:"):
        return None
    own = os.path.realpath(os.path.join(worktree, link.removeprefix("gitdir:").strip()))
    common, back = _line(f"{own}/commondir"), _line(f"{own}/gitdir")
    if not common or os.path.realpath(os.path.join(own, back)) != f"{worktree.rstrip('/')}/.git":
        return None
    common = os.path.realpath(os.path.join(own, common))
    if os.path.dirname(own) != f"{common}/worktrees":
        return None
    return os.path.dirname(common) if os.path.basename(common) == ".git" else common


def _line(path: str) -> str:
    """The text of a small regular file; empty if the file is missing or cannot be a path."""
    try:
        content = read_file(path, _GIT_FILE_MAX)
    except OSError:
        return ""
    return "" if content.cut or b"\0" in content.data else os.fsdecode(content.data).strip()
