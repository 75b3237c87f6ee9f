"""Decides which MCP servers and skills a session gets, and writes its identity into each server.

A session gets copies of the servers of its user and its workspace (which win), if the capabilities and the trust level
of the session allow them. Those of the workspace also need the operator's agreement. The daemon sets `SM_*` in each
copy last. `mcp` reads the files.

The grants also list the servers and skills that an agent CLI finds by itself and must ignore. Agents can write to those
places, so all reads are bounded and run in a separate thread pool.
"""

import asyncio
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from pathlib import PurePath

from sm.capabilities.agreements import Agreements
from sm.capabilities.mcp import (
    NAME_SHOWN,
    Server,
    Servers,
    project_of,
    project_servers,
    server_items,
    server_names,
    user_servers,
)
from sm.capabilities.reserved_name import ReservedName
from sm.core.items import ItemState
from sm.core.mcp import OWN_SERVER
from sm.core.models import IDENTITY, Capabilities, Session, Workspace
from sm.core.states import TrustLevel
from sm.core.text import folded
from sm.errors import UsageError
from sm.linux.files import directory_below
from sm.policy.environment import denied_in_sandbox
from sm.providers.base import CapabilitySources, GrantedCapabilities, Provider

_THREADS = 4
_TIME_S = 10.0
_NAMES_MAX_CHARS = 32 * 1024  # the names become one argument; Linux allows 128 KiB
_ENTRIES_MAX = 2_000  # total for all skill directories
_DEPTH_MAX = 8


@dataclass(frozen=True, slots=True)
class Grants:
    """The MCP servers and skills of one session."""

    granted: GrantedCapabilities = field(default_factory=GrantedCapabilities)
    """The settings for the agent CLI. The caller adds `mcp_file`, whose path is not known here."""
    servers: Servers = field(default_factory=dict, repr=False)
    """Servers by name, from the files, without the parts that the trust level forbids."""
    warnings: tuple[str, ...] = ()

    def with_own_server(self, server: Server) -> "Grants":
        """The grants with the server of sm."""
        granted = replace(self.granted, own_server=True)
        return replace(self, granted=granted, servers={**self.servers, OWN_SERVER: server})

    def mcp_config(self, environment: Mapping[str, str]) -> str | None:
        """The content of the session's MCP file, with the identity from `environment`. None: no file."""
        if not self.servers:
            return None
        identity = {name: environment[name] for name in IDENTITY if name in environment}
        servers = {name: _with_identity(server, identity) for name, server in self.servers.items()}
        return json.dumps({"mcpServers": servers})  # not orjson: paths may hold bytes that are not UTF-8


class Granter:
    """Decides the grants of sessions. `defaults`: capabilities of sessions without a workspace."""

    def __init__(self, defaults: Capabilities, agreements: Agreements) -> None:
        self._defaults = defaults
        self._agreements = agreements
        # A separate pool: a file system that does not answer blocks its threads.
        self._threads = ThreadPoolExecutor(_THREADS, "sm-capabilities")

    async def grants(
        self,
        session: Session,
        workspace: Workspace | None,
        provider: Provider,
        environment: Mapping[str, str],
        *,
        has_own_server: bool = False,
    ) -> Grants:
        """The grants for a session that is about to start. `environment`: the inherited variables.

        `has_own_server`: the session gets the server of sm too, so that no other server has its name.
        Reads nothing for a provider without grants. Raises UsageError for a file that is unreadable or invalid.
        """
        sources = provider.capability_sources(environment, ())
        if sources is None:
            return Grants()
        allowed = self._defaults
        if workspace is not None:
            allowed = workspace.capabilities
        elif session.workspace is not None:  # without the workspace's record, grant nothing
            allowed = Capabilities((), (), ())
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_TIME_S):
                return await loop.run_in_executor(
                    self._threads,
                    partial(self._read, session, workspace, provider, environment, allowed, has_own_server),
                )
        except TimeoutError:
            raise UsageError(
                f"cannot read the MCP servers and skills for {folded(session.working_dir, 400)}: "
                f"the file system did not respond within {_TIME_S:g} s",
                f"check that {' or '.join(sources.names)} in the project do not link to a slow file system",
            ) from None

    def _read(
        self,
        session: Session,
        workspace: Workspace | None,
        provider: Provider,
        environment: Mapping[str, str],
        allowed: Capabilities,
        has_own_server: bool,
    ) -> Grants:
        until_s = time.monotonic() + _TIME_S
        around = _directories_above(session.working_dir)
        directory = None if workspace is None else workspace.directory
        if directory is not None and directory not in around:
            around = (*around, directory)
        writable = (around[0],) if directory is None else (around[0], directory)
        # A worktree also has the commands of its repository, wherever that is (measured).
        repository = project_of(around)
        sources = provider.capability_sources(environment, tuple(dict.fromkeys((*around, repository))))
        if sources is None:
            return Grants()
        strict = workspace is not None and workspace.strict_mcps
        warnings: list[str] = []
        reserved = ReservedName(has_own_server)
        servers = reserved.without(user_servers(sources.user_mcps, repository), sources.user_mcps)
        own = frozenset(servers)
        project: Servers = {}
        if workspace is not None:
            path = sources.project_mcps[workspace.directory]
            project = reserved.without(project_servers(path), path)
            states = self._states(path, project)
            agreed = {name: project[name] for name, state in states.items() if state is ItemState.AGREED}
            servers = {**servers, **agreed}
            own -= agreed.keys()
            warnings += _agreement_warnings(workspace.slug, path, states, allowed.mcps)
        chosen = servers
        if allowed.mcps is not None:
            chosen = {name: server for name, server in servers.items() if name in allowed.mcps}
            known = {**project, **servers}
            if has_own_server:
                known[OWN_SERVER] = {}
            warnings += (_missing_warning(name, known) for name in allowed.mcps if name not in known)
        sandboxed = session.effective_mode is TrustLevel.SANDBOXED
        if sandboxed:
            kept = {
                name: _sandboxed(server)
                for name, server in chosen.items()
                if not _is_on_host(server, name in own, directory)
            }
            warnings += (
                f"MCP server {folded(name, NAME_SHOWN)} is left out: its program is configured for the host, and "
                "the session runs in a sandbox"
                for name in chosen
                if name not in kept
            )
            chosen = kept
        # Otherwise the agent CLI would find the omitted servers by itself, also in other places.
        strict = strict or allowed.mcps is not None or len(chosen) < len(servers) or sandboxed
        off = dict.fromkeys((OWN_SERVER,) if has_own_server else ())
        if strict or directory is not None:
            for place in around:
                path = sources.project_mcps[place]
                names = tuple(project)
                if place != directory:
                    found = server_names(path, follow=not _inside(place, writable))
                    names = reserved.names(found, path)
                off |= dict.fromkeys(names)
                if not strict and place != directory and not project.keys() >= set(names):
                    more = ", ".join(folded(name, NAME_SHOWN) for name in names if name not in project)
                    warnings.append(
                        f"MCP servers not used from {path}: {more} (a session in a workspace gets only the MCP "
                        "servers of the workspace's own file and of the user)"
                    )
        else:
            for path in (sources.project_mcps[place] for place in around):
                with suppress(UsageError):  # the agent CLI reads these files by itself
                    reserved.names(
                        server_names(path, follow=not _inside(os.path.dirname(path), writable)), path
                    )
        warnings += reserved.warnings()
        skills_off, all_own, missing = _skills(
            allowed.skills, sources, _SkillSearch(writable, until_s, contained=sandboxed)
        )
        warnings += missing
        return Grants(
            GrantedCapabilities(
                strict_mcps=strict,
                mcps_off=_check_length(tuple(off), "MCP servers"),
                skills=allowed.skills is None or bool(allowed.skills),
                skills_off=_check_length(skills_off, "skills"),
                own_skills=all_own,
            ),
            chosen,
            tuple(warnings),
        )

    def _states(self, path: str, servers: Servers) -> Mapping[str, ItemState]:
        return dict(zip(servers, self._agreements.states(server_items(path, servers)), strict=True))


# ------------------------------------------------------------------------------------------------------- the servers


def _agreement_warnings(
    slug: str, path: str, states: Mapping[str, ItemState], allowed: Sequence[str] | None
) -> Iterator[str]:
    """One warning about the servers that the session would get if the operator agreed to them."""
    left_out = [
        f"{folded(name, NAME_SHOWN)} ({state})"
        for name, state in states.items()
        if state is not ItemState.AGREED and (allowed is None or name in allowed)
    ]
    if left_out:
        yield (
            f"MCP servers of {path} are left out until the operator agrees to them: "
            f"{', '.join(left_out)} (sm workspace agree {slug})"
        )


def _with_identity(server: Server, identity: Mapping[str, str]) -> Server:
    """Copy a server's block with the session's identity. A server with a URL has no environment."""
    if "command" not in server:
        return server
    own = {name: value for name, value in server.get("env", {}).items() if not name.startswith("SM_")}
    return {**server, "env": {**own, **identity}}


def _sandboxed(server: Server) -> Server:
    if "env" not in server:
        return server
    return {
        **server,
        "env": {name: value for name, value in server["env"].items() if not denied_in_sandbox(name)},
    }


def _is_on_host(server: Server, is_of_user: bool, directory: str | None) -> bool:
    """Return whether the program is on the host only. Programs in a workspace's directory exist in its container.

    A program without a path may be in the image of the container, which this module does not know.
    """
    command = server.get("command", "")
    if "/" not in command and not command.startswith(("~", "$")):
        return False
    if is_of_user or directory is None:
        return True
    program = os.path.normpath(command)
    return program.startswith(("/", "~", "$")) and not program.startswith(directory.rstrip("/") + "/")


def _missing_warning(name: str, servers: Servers) -> str:
    near = get_close_matches(name, servers, n=1)
    hint = f"; did you mean {folded(near[0], NAME_SHOWN)}?" if near else ""
    return f"there is no MCP server {folded(name, NAME_SHOWN)}{hint}"


# --------------------------------------------------------------------------------------------------------- the skills


def _skills(
    allowed: Sequence[str] | None, sources: CapabilitySources, search: "_SkillSearch"
) -> tuple[tuple[str, ...], bool, tuple[str, ...]]:
    """The skills to turn off, whether the bundled skills of the agent CLI stay, and warnings."""
    if allowed is None:
        return (), True, ()
    skills = dict.fromkeys(name for directory in sources.skills for name in search.skills(directory))
    skills |= dict.fromkeys(name for directory in sources.commands for name in search.commands(directory))
    missing = [name for name in allowed if name not in skills]
    warnings = tuple(
        f"there is no skill {folded(name, NAME_SHOWN)} here; if it is built into the agent, all built-in skills "
        "stay usable"
        for name in missing
    )
    return tuple(name for name in skills if name not in allowed), bool(missing), warnings


class _SkillSearch:
    """Lists the skills in directories that agents can write to. Raises UsageError over a limit."""

    def __init__(self, writable: Sequence[str], until_s: float, *, contained: bool) -> None:
        """`writable`: directories that agents can write to, which must not hold links to outside.

        `until_s`: deadline by time.monotonic(). `contained`: the agents do not see the rest of this host, and must not
        learn its names through links.
        """
        self._writable = writable
        self._contained = contained
        self._until_s = until_s
        self._left = _ENTRIES_MAX

    def skills(self, directory: str) -> Iterator[str]:
        yield from self._names(self._top(directory), directory)

    def commands(self, directory: str) -> Iterator[str]:
        """The names of commands: `sub/x.md` is `sub:x`, `sub/SKILL.md` is `sub`.

        Follows links, except loops, as claude does (measured). Links out of the container lead nowhere there.
        """
        waiting: list[tuple[str, tuple[str, ...], frozenset[tuple[int, int]]]]
        waiting = [(self._top(directory), (), frozenset())]
        while waiting:
            path, prefix, above = waiting.pop()
            try:
                info = os.stat(path)
            except OSError:
                continue
            if (info.st_dev, info.st_ino) in above:
                continue
            if len(prefix) > _DEPTH_MAX:
                raise _over_limit_error(directory, f"more than {_DEPTH_MAX} directory levels")
            below = above | {(info.st_dev, info.st_ino)}
            for name in self._names(path, directory):
                if (inner := self._directory(f"{path}/{name}")) is not None:
                    waiting.append((inner, (*prefix, name), below))
                    continue
                if name.lower() == "skill.md":
                    yield ":".join(prefix or (os.path.basename(directory),))
                if name.endswith(".md"):
                    yield ":".join((*prefix, name[:-3]))

    def _top(self, directory: str) -> str:
        real = os.path.realpath(directory)
        if _inside(directory, self._writable) and not _inside(real, self._writable) and os.path.exists(real):
            raise UsageError(
                f"cannot list the skills in {folded(directory, 400)}: "
                "agents can change this path, and it is a link that leads out of the project",
                "replace the link with a directory, or allow all skills for the session",
            )
        return real

    def _directory(self, path: str) -> str | None:
        """The directory that agents see at `path`; None: no directory."""
        if not os.path.isdir(path):
            return None
        if not self._contained or not _inside(path, self._writable):
            return path
        real = os.path.realpath(path)
        return real if _inside(real, self._writable) else None

    def _names(self, path: str, directory: str) -> list[str]:
        names = []
        try:
            with self._opened(path) as place, os.scandir(place) as entries:
                for entry in entries:
                    self._left -= 1
                    if self._left < 0:
                        raise _over_limit_error(directory, f"more than {_ENTRIES_MAX} entries")
                    if time.monotonic() > self._until_s:
                        raise TimeoutError
                    names.append(entry.name)
        except TimeoutError:
            raise
        except OSError:
            return []
        return sorted(names)

    @contextmanager
    def _opened(self, path: str) -> Iterator[str | int]:
        """The directory for `os.scandir`. An agent may put a link in its place at any time, which is not followed."""
        above = next((place for place in self._writable if _inside(path, (place,))), None)
        if not self._contained or above is None:
            yield path
            return
        parts = [part for part in path[len(above) :].split("/") if part]
        with directory_below(above, parts) as descriptor:
            yield descriptor


def _over_limit_error(directory: str, bound: str) -> UsageError:
    return UsageError(
        f"cannot list the skills in {folded(directory, 400)}: {bound}",
        "remove files that do not belong there, or allow all skills for the session",
    )


def _inside(path: str, directories: Sequence[str]) -> bool:
    return any(path == directory or path.startswith(directory.rstrip("/") + "/") for directory in directories)


def _check_length(names: tuple[str, ...], what: str) -> tuple[str, ...]:
    if sum(len(name.encode("utf-8", "surrogateescape")) + 8 for name in names) > _NAMES_MAX_CHARS:
        raise UsageError(
            f"too many {what} to deny to the session: {len(names)}",
            "remove some of them, or allow all of them for the session",
        )
    return names


def _directories_above(working_dir: str) -> tuple[str, ...]:
    """The directory, without links, and all its parents: agent CLIs look for project files in each of them."""
    path = PurePath(os.path.realpath(working_dir))
    return tuple(map(str, (path, *path.parents)))
