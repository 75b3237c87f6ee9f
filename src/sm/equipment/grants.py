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
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import field, replace
from difflib import get_close_matches
from functools import partial
from pathlib import PurePath

from sm.core.dataclass import dataclass
from sm.core.items import ItemState
from sm.core.models import IDENTITY, Capabilities, Session, Workspace
from sm.core.programs import OWN_SERVER
from sm.core.states import TrustLevel
from sm.core.text import folded
from sm.equipment.agreements import Agreements
from sm.equipment.mcp_servers import (
    NAME_SHOWN,
    Server,
    Servers,
    project_of,
    project_servers,
    server_items,
    server_names,
    user_servers,
)
from sm.equipment.skills import SkillSearch, is_inside, skills_off_of
from sm.errors import UsageError
from sm.paths import INSIDE_HOME
from sm.policy.environment import denied_in_sandbox
from sm.providers.base import CapabilitySources, GrantedCapabilities, Provider
from sm.sandboxes.home import HomeOf, on_host


class ReservedName:
    """The name of the server of sm, which no other server of a session has if `is_reserved`."""

    def __init__(self, is_reserved: bool) -> None:
        self._is_reserved = is_reserved
        self._paths: dict[str, None] = {}

    def without(self, servers: Servers, path: str) -> Servers:
        """The servers of a file that have another name."""
        kept = self.names(tuple(servers), path)
        return servers if len(kept) == len(servers) else {name: servers[name] for name in kept}

    def names(self, names: Sequence[str], path: str) -> tuple[str, ...]:
        """The names of servers in a file, without the reserved one."""
        if self._is_reserved and OWN_SERVER in names:
            self._paths[path] = None
            return tuple(name for name in names if name != OWN_SERVER)
        return tuple(names)

    def warnings(self) -> Iterator[str]:
        """A warning for each file that had a server of the name."""
        for path in self._paths:
            yield (
                f"MCP server {OWN_SERVER} of {folded(path, 400)} is left out: sm gives its agents a server of this name"
            )


_THREADS = 4
_TIME_S = 10.0
_NAMES_MAX_CHARS = 32 * 1024  # the names become one argument; Linux allows 128 KiB


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
        """The content of the session's MCP file, with the identity from `environment`, or None for no file."""
        if not self.servers:
            return None
        identity = {name: environment[name] for name in IDENTITY if name in environment}
        servers = {name: _with_identity(server, identity) for name, server in self.servers.items()}
        return json.dumps({"mcpServers": servers})  # not orjson: paths may hold bytes that are not UTF-8


class Granter:
    """Decides the grants of sessions. `defaults`: capabilities of sessions without a workspace."""

    def __init__(
        self, defaults: Callable[[], Capabilities], agreements: Agreements, home_of: HomeOf = on_host
    ) -> None:
        self._defaults = defaults
        self._home_of = home_of
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
        allowed = self._defaults()
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
        places = _places(session, workspace, provider, environment)
        if places is None:
            return Grants()
        sandboxed = session.effective_mode is TrustLevel.SANDBOXED
        reserved = ReservedName(has_own_server)
        found = self._servers(places, workspace, allowed, reserved)
        chosen, warnings = _chosen(found, places, allowed, has_own_server, sandboxed=sandboxed)
        # Otherwise the agent CLI would find the omitted servers by itself, also in other places.
        strict = workspace is not None and workspace.strict_mcps
        strict = strict or allowed.mcps is not None or len(chosen) < len(found.servers) or sandboxed
        off = dict.fromkeys((OWN_SERVER,) if has_own_server else ())
        if strict or places.directory is not None:
            names, unused = _left_out(places, found.project, reserved, strict=strict)
            off |= dict.fromkeys(names)
            warnings += unused
        else:
            for path in (places.sources.project_mcps[place] for place in places.around):
                with suppress(UsageError):  # the agent CLI reads these files by itself
                    reserved.names(places.names_in(path, os.path.dirname(path)), path)
        warnings += reserved.warnings()
        home, sources = self._home_of(session), places.sources
        if home is not None:  # the skills of the host's user are not in the container
            inside = provider.capability_sources({"HOME": INSIDE_HOME}, places.around) or sources
            sources = replace(sources, skills=inside.skills, commands=inside.commands)
        search = SkillSearch(places.writable, until_s, contained=sandboxed, home=home)
        skills_off, all_own, missing = skills_off_of(allowed.skills, sources, search)
        return Grants(
            GrantedCapabilities(
                strict_mcps=strict,
                mcps_off=_check_length(tuple(off), "MCP servers"),
                skills=allowed.skills is None or bool(allowed.skills),
                skills_off=_check_length(skills_off, "skills"),
                own_skills=all_own,
            ),
            chosen,
            (*found.warnings, *warnings, *missing),
        )

    def _servers(
        self, places: "_Places", workspace: Workspace | None, allowed: Capabilities, reserved: ReservedName
    ) -> "_FoundServers":
        """Read the servers of the user, and those of the workspace's file that the operator agreed to."""
        sources = places.sources
        servers = reserved.without(user_servers(sources.user_mcps, places.repository), sources.user_mcps)
        if workspace is None:
            return _FoundServers(servers, frozenset(servers))
        path = sources.project_mcps[workspace.directory]
        project = reserved.without(project_servers(path), path)
        states = self._states(path, project)
        agreed = {name: project[name] for name, state in states.items() if state is ItemState.AGREED}
        return _FoundServers(
            {**servers, **agreed},
            servers.keys() - agreed.keys(),
            project,
            tuple(_agreement_warnings(workspace.slug, path, states, allowed.mcps)),
        )

    def _states(self, path: str, servers: Servers) -> Mapping[str, ItemState]:
        return dict(zip(servers, self._agreements.states(server_items(path, servers)), strict=True))


# ------------------------------------------------------------------------------------------------------- the servers


@dataclass(frozen=True, slots=True)
class _Places:
    """The directories in which an agent CLI looks for servers and skills."""

    around: tuple[str, ...]
    """The working directory and those above it, then the directory of the workspace."""
    directory: str | None
    """The directory of the workspace."""
    repository: str
    sources: CapabilitySources

    @property
    def writable(self) -> tuple[str, ...]:
        """The directories whose files agents can write."""
        return (self.around[0],) if self.directory is None else (self.around[0], self.directory)

    def names_in(self, path: str, place: str) -> Sequence[str]:
        """The names of the servers in a project's file at that place. Raises UsageError."""
        return server_names(path, follow=not is_inside(place, self.writable))


def _places(
    session: Session, workspace: Workspace | None, provider: Provider, environment: Mapping[str, str]
) -> _Places | None:
    around = _directories_above(session.working_dir)
    directory = None if workspace is None else workspace.directory
    if directory is not None and directory not in around:
        around = (*around, directory)
    # A worktree also has the commands of its repository, wherever that is (measured).
    repository = project_of(around)
    sources = provider.capability_sources(environment, tuple(dict.fromkeys((*around, repository))))
    return None if sources is None else _Places(around, directory, repository, sources)


@dataclass(frozen=True, slots=True)
class _FoundServers:
    servers: Servers
    """By name, as the session may get them."""
    of_user: Set[str]
    """The names of those that the user has configured."""
    project: Servers = field(default_factory=dict)
    """All in the file of the workspace."""
    warnings: tuple[str, ...] = ()


def _chosen(
    found: _FoundServers,
    places: _Places,
    allowed: Capabilities,
    has_own_server: bool,
    *,
    sandboxed: bool,
) -> tuple[Servers, list[str]]:
    """Choose the servers that the capabilities and the trust level allow. Returns warnings too."""
    chosen, warnings = found.servers, list[str]()
    if allowed.mcps is not None:
        chosen = {name: server for name, server in chosen.items() if name in allowed.mcps}
        known = {**found.project, **found.servers}
        if has_own_server:
            known[OWN_SERVER] = {}
        warnings += (_missing_warning(name, known) for name in allowed.mcps if name not in known)
    if not sandboxed:
        return chosen, warnings
    kept = {
        name: _sandboxed(server)
        for name, server in chosen.items()
        if not _is_on_host(server, name in found.of_user, places.directory)
    }
    warnings += (
        f"MCP server {folded(name, NAME_SHOWN)} is left out: its program is configured for the host, and the session "
        "runs in a sandbox"
        for name in chosen
        if name not in kept
    )
    return kept, warnings


def _left_out(
    places: _Places, project: Servers, reserved: ReservedName, *, strict: bool
) -> tuple[list[str], list[str]]:
    """Name the servers that the agent CLI would find by itself and must ignore. Returns warnings too."""
    off, warnings = list[str](), list[str]()
    for place in places.around:
        path, names = places.sources.project_mcps[place], tuple(project)
        if place != places.directory:
            names = reserved.names(places.names_in(path, place), path)
        off += names
        if not strict and place != places.directory and not project.keys() >= set(names):
            more = ", ".join(folded(name, NAME_SHOWN) for name in names if name not in project)
            warnings.append(
                f"MCP servers not used from {path}: {more} (a session in a workspace gets only the MCP servers of the "
                "workspace's own file and of the user)"
            )
    return off, warnings


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
