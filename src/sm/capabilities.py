"""What a session is given of the MCP servers and skills that lie about, and who it is, written into each server.

The user's own servers and those of the session's workspace (which win), as far as the capabilities let them through
and the trust level lets them work. A file is read when a session starts, again only when it has changed, and what is
kept of it is never written to: each session gets copies, in which `SM_*` is the daemon's word, assigned last.

What an agent CLI finds by itself, beside what it is given, is named too, so that it can be told to leave it alone.
"""

import asyncio
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import orjson

from sm.errors import UsageError
from sm.models import Capabilities, Session, TrustLevel, Workspace
from sm.providers.base import Given, Provider, Sources
from sm.text import folded

PROJECT_FILE_MAX = 1024 * 1024
"""Bytes. Agents write there."""
USER_FILE_MAX = 64 * 1024 * 1024
"""Bytes. claude keeps much else in that file, and it is the user's alone."""

IDENTITY = (
    "SM_SESSION_ID",
    "SM_PARENT_ID",
    "SM_WORKSPACE_ID",
    "SM_TRUST_LEVEL",
    "SM_SOCKET",
    "SM_TOKEN_FILE",
)
"""What each server is told, with the values of the session's own environment (`Spawning`)."""

DENIED_IN_SANDBOX = (
    "LD_*", "GCONV_PATH", "GLIBC_TUNABLES",  # the dynamic loader runs code from where they say
    "NODE_OPTIONS", "NODE_PATH", "BUN_OPTIONS", "PYTHON*", "PERL5*", "RUBYOPT", "RUBYLIB",  # so do interpreters
    "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS",
    "BASH_ENV", "BASH_FUNC_*", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "ZDOTDIR",  # and shells
    "GIT_*", "SSH_*",  # git and ssh run the commands that these name
)  # fmt: skip
"""What no server in a sandbox is given from a file: with each of them another code runs than that of the server's
program. A name, or how it begins (`*`). `direct` sessions run as the user himself, who may say what he likes.
"""

Server = Mapping[str, Any]
"""The block of one server, as a file has it."""
Servers = Mapping[str, Server]
Scopes = Mapping[str | None, Servers]
"""The servers for everywhere (None) and, in a file of the user's, those for one project, by its directory."""

_CHANGING_S = 0.05  # claude rewrites its file while it runs; a reader may meet it half written
_SAME_TIME_NS = 100_000_000  # a change so soon after the last may leave the time of the file as it is
_KEPT_MAX = 256
_NAMES_MAX_CHARS = 32 * 1024  # they become one argument of the agent's, of which Linux takes 128 KiB
_NAME_SHOWN = 64


@dataclass(frozen=True, slots=True)
class Equipment:
    """What one session is given."""

    given: Given = field(default_factory=Given)
    """What its agent CLI has to be told; `mcp_file` is for whoever knows where that lies."""
    servers: Servers = field(default_factory=dict, repr=False)
    """By name, as the files have them, but for what trust takes away."""
    warnings: tuple[str, ...] = ()

    def mcp_config(self, environment: Mapping[str, str]) -> str | None:
        """The text of the session's own file of servers; None: no file. The identity is that of its `environment`."""
        if not self.servers:
            return None
        identity = {name: environment[name] for name in IDENTITY if name in environment}
        servers = {name: _as(server, identity) for name, server in self.servers.items()}
        return json.dumps({"mcpServers": servers})  # which writes what is no UTF-8 in a path, too


class Equipping:
    """Decides what sessions are given. `defaults`: for those without a workspace."""

    def __init__(self, defaults: Capabilities) -> None:
        self._defaults = defaults
        self._files = Files()

    async def equip(
        self,
        session: Session,
        workspace: Workspace | None,
        provider: Provider,
        environment: Mapping[str, str],
    ) -> Equipment:
        """For a session that is to be started. `environment`: what it inherits.

        Nothing is read for a provider whose agents take none of it. Raises UsageError for a file that cannot be used.
        """
        if provider.sources(environment, ()) is None:
            return Equipment()
        around = await asyncio.to_thread(_around, session.working_dir)
        directory = None if workspace is None else workspace.directory
        if directory is not None and directory not in around:
            around = (*around, directory)
        sources = provider.sources(environment, around)
        if sources is None:
            return Equipment()
        allowed = self._defaults
        if workspace is not None:
            allowed = workspace.capabilities
        elif session.workspace is not None:  # a row that is not there gives nothing away
            allowed = Capabilities((), (), ())
        strict = workspace is not None and workspace.strict_mcps
        return await asyncio.to_thread(self._equip, session, around, directory, allowed, strict, sources)

    def _equip(
        self,
        session: Session,
        around: Sequence[str],
        directory: str | None,
        allowed: Capabilities,
        strict: bool,
        sources: Sources,
    ) -> Equipment:
        warnings: list[str] = []
        users = self._files.servers(sources.user_mcps, USER_FILE_MAX, users=True)
        found = {**users[None], **users.get(_project(around), {})}
        own = frozenset(found)
        project: Servers = {}
        if directory is not None:
            project = self._project(sources.project_mcps[directory])
            found |= project
            own -= project.keys()
        chosen = found
        if allowed.mcps is not None:
            chosen = {name: server for name, server in found.items() if name in allowed.mcps}
            warnings += (_nowhere(name, found) for name in allowed.mcps if name not in found)
        if session.effective_mode is TrustLevel.SANDBOXED:
            kept = {
                name: _sandboxed(server)
                for name, server in chosen.items()
                if not _of_the_host(server, name in own, directory)
            }
            warnings += (_left_on_host(name) for name in chosen if name not in kept)
            chosen = kept
        # Whatever is left out the agent CLI would find by itself, in these and in other places that it has.
        strict = strict or allowed.mcps is not None or len(chosen) < len(found)
        off: dict[str, None] = {}
        if strict or directory is not None:
            for place, path in sources.project_mcps.items():
                names = self._project(path)
                off |= dict.fromkeys(names)
                if not strict and place != directory and not names.keys() <= project.keys():
                    more = ", ".join(folded(name, _NAME_SHOWN) for name in names if name not in project)
                    warnings.append(
                        f"not used from {path}: {more} (a session in a workspace gets the MCP servers of "
                        "the workspace's own file, and the user's)"
                    )
        skills_off, all_own, missing = _skills(allowed.skills, sources)
        warnings += missing
        return Equipment(
            Given(
                strict_mcps=strict,
                mcps_off=_fitting(tuple(off), "MCP servers"),
                skills=allowed.skills is None or bool(allowed.skills),
                skills_off=_fitting(skills_off, "skills"),
                own_skills=all_own,
            ),
            chosen,
            tuple(warnings),
        )

    def _project(self, path: str) -> Servers:
        return self._files.servers(path, PROJECT_FILE_MAX, users=False)[None]


# ------------------------------------------------------------------------------------------------------- the servers


def _as(server: Server, identity: Mapping[str, str]) -> Server:
    """A copy of a server's block that says who the session is; one that is reached by its URL has no environment."""
    if "command" not in server:
        return server
    own = {name: value for name, value in server.get("env", {}).items() if not name.startswith("SM_")}
    return {**server, "env": {**own, **identity}}


def _sandboxed(server: Server) -> Server:
    if "env" not in server:
        return server
    return {**server, "env": {name: value for name, value in server["env"].items() if not _denied(name)}}


def _denied(name: str) -> bool:
    return any(
        name.startswith(each[:-1]) if each.endswith("*") else name == each for each in DENIED_IN_SANDBOX
    )


def _of_the_host(server: Server, is_users: bool, directory: str | None) -> bool:
    """Whether a container has no such program: the user's are on the host, a workspace's may be in its directory."""
    if "command" not in server:
        return False
    if is_users or directory is None:
        return True
    program = os.path.normpath(server["command"])
    return program.startswith(("/", "~", "$")) and not program.startswith(directory.rstrip("/") + "/")


def _nowhere(name: str, found: Servers) -> str:
    near = get_close_matches(name, found, n=1)
    hint = f"; did you mean {folded(near[0], _NAME_SHOWN)}?" if near else ""
    return f"there is no MCP server {folded(name, _NAME_SHOWN)}{hint}"


def _left_on_host(name: str) -> str:
    return (
        f"MCP server {folded(name, _NAME_SHOWN)} is left out: its program is configured for the host, and "
        "the session runs in a sandbox"
    )


def _project(around: Sequence[str]) -> str:
    """The directory under which claude keeps what a user has set for one project: the repository, or where it is
    (measured)."""
    return next((each for each in around if os.path.lexists(f"{each}/.git")), around[0])


# ---------------------------------------------------------------------------------------------------------- the files


class Files:
    """What files of MCP servers say, each read again only when it is another one or has changed. For threads."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[tuple[int, ...], Scopes]] = {}

    def servers(self, path: str, max_bytes: int, *, users: bool) -> Scopes:
        """The servers by name; not to be written to. By project too in a file of the user's (`users`).

        Nothing where there is no such file. Only the user's may be a link: agents can write to
        the others. Raises UsageError for what is no regular file, is too large, or does not say it as it should.
        """
        opened = _open(path, follow=users)
        if opened is None:
            return {None: {}}
        try:
            info = os.fstat(opened)
            if not stat.S_ISREG(info.st_mode):
                raise _unusable(path, "is no regular file")
            stamp = (info.st_dev, info.st_ino, info.st_mtime_ns, info.st_size)
            kept = self._kept.get(path)
            if kept is not None and kept[0] == stamp:
                return kept[1]
            with open(opened, "rb", closefd=False) as file:
                content = file.read(max_bytes + 1)
        finally:
            os.close(opened)
        if len(content) > max_bytes:
            raise _unusable(path, f"is larger than {max_bytes // 1024} KiB")
        try:
            value = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            if users and stamp != _stamp(path):
                return self.servers(path, max_bytes, users=users)
            at = f"line {error.lineno}, column {error.colno}"
            raise _unusable(path, f"is no JSON: {error.msg} ({at})") from None
        said = _scopes(path, value, users=users)
        if time.time_ns() - info.st_mtime_ns < _SAME_TIME_NS:
            return said
        while len(self._kept) >= _KEPT_MAX:
            self._kept.pop(next(iter(self._kept)), None)
        self._kept[path] = stamp, said
        return said


def _stamp(path: str) -> tuple[int, ...] | None:
    """As it is a moment later."""
    time.sleep(_CHANGING_S)
    try:
        info = os.stat(path)
    except OSError:
        return None
    return info.st_dev, info.st_ino, info.st_mtime_ns, info.st_size


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


def _scopes(path: str, value: Any, *, users: bool) -> Scopes:
    if not isinstance(value, dict):
        raise _unusable(path, "holds no JSON object")
    scopes: dict[str | None, Servers] = {None: _servers(path, value)}
    projects = value.get("projects") if users else None
    if isinstance(projects, dict):
        for project, said in projects.items():
            if isinstance(said, dict) and said.get("mcpServers"):
                scopes[project] = _servers(path, said)
    return scopes


def _servers(path: str, value: Mapping[str, Any]) -> Servers:
    servers = value.get("mcpServers")
    if servers is None:
        return {}
    if not isinstance(servers, dict):
        raise _unusable(path, "has mcpServers that are no object")
    for name, server in servers.items():
        trouble = _trouble(server)
        if trouble is not None:
            raise _unusable(path, f"has an MCP server {folded(name, _NAME_SHOWN)!r} {trouble}")
    return servers


def _trouble(server: Any) -> str | None:
    """What is wrong with the block of one server. What is not known here is left to the agent CLI."""
    if not isinstance(server, dict):
        return "that is no object"
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
        return "whose env is no object of texts"
    return None


# --------------------------------------------------------------------------------------------------------- the skills


def _skills(allowed: Sequence[str] | None, sources: Sources) -> tuple[tuple[str, ...], bool, tuple[str, ...]]:
    """The skills to turn off, whether those that come with the agent CLI stay, and warnings."""
    if allowed is None:
        return (), True, ()
    found = dict.fromkeys(name for each in _listed(sources) for name in each)
    missing = [name for name in allowed if name not in found]
    warnings = tuple(
        f"there is no skill {folded(name, _NAME_SHOWN)} here: in case it is one that comes with the agent, all of "
        "those stay usable"
        for name in missing
    )
    return tuple(name for name in found if name not in allowed), bool(missing), warnings


def _listed(sources: Sources) -> Iterator[Sequence[str]]:
    """The names of all skills there are, in each place."""
    for directory in sources.skills:
        yield _entries(directory)
    for directory in sources.commands:
        # `sub/x.md` is `sub:x`.
        below = os.walk(directory)
        for place, _, files in below:
            prefix = [] if place == directory else os.path.relpath(place, directory).split(os.sep)
            yield [":".join((*prefix, name[:-3])) for name in files if name.endswith(".md")]


def _entries(directory: str) -> Sequence[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return ()


def _fitting(names: tuple[str, ...], what: str) -> tuple[str, ...]:
    if sum(len(name.encode("utf-8", "surrogateescape")) + 8 for name in names) > _NAMES_MAX_CHARS:
        raise UsageError(f"there are too many {what} around ({len(names)}) to keep them from the session")
    return names


def _around(working_dir: str) -> tuple[str, ...]:
    """The directory, without links, and all above it: agent CLIs look for what is a project's in each of them."""
    path = os.path.realpath(working_dir)
    found = [path]
    while path != "/":
        path = os.path.dirname(path)
        found.append(path)
    return tuple(found)
