"""Adapts the plan of a session to its container: working directory, system prompt, MCP servers.

The rules do not apply to a session that runs on this host.
"""

import os
import shlex
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from sm.config import Config, SandboxSection, sandbox_for, split_mount
from sm.core.models import Session, SpawnRequest, Workspace
from sm.core.programs import engine_of
from sm.core.states import TrustLevel
from sm.core.text import folded
from sm.equipment.grants import Grants
from sm.errors import InvalidPath, ProgramMissing
from sm.linux.file_threads import FileThreads
from sm.operations.hints import Argument, Hint
from sm.paths import INSIDE_SCRATCH, is_within
from sm.policy.mounts import system_refusal
from sm.sandboxes.images import missing_program_hint
from sm.sessions.workdir import require_directory

ProgramCheck = Callable[[Workspace | None, str], Awaitable[bool | None]]
"""Asks whether the image of a container has a program, by its name on the PATH or its path. Returns None if unknown."""

ImageVersion = Callable[[Workspace | None, str], str | None]
"""Returns the version of an agent CLI, by the name of its provider, in the image of a container, or None if unknown."""

_LOCAL_NAMES = ("localhost", "ip6-localhost", "0.0.0.0", "::", "::1")
_NAME_SHOWN = 64
_CREATE = Hint("sm workspace create NAME ", Argument("working_dir", "PATH"))


def scratch_of(session_id: str) -> str:
    """The private directory of a session in its container."""
    return f"{INSIDE_SCRATCH}/{session_id}"


async def contained_directory(
    config: Config,
    session: Session,
    workspace: Workspace | None,
    request: SpawnRequest,
    *,
    in_container: bool,
    threads: FileThreads,
    exists: bool = True,
) -> tuple[str, tuple[str, ...]]:
    """The working directory in the container, and warnings. `session` has the directory that was requested.

    Without a workspace, and without a requested directory, it is the session's scratch directory. `in_container`: the
    caller runs in a container too. `exists`: False for a directory that is made later. Raises InvalidPath for a
    directory that the container does not show.
    """
    settings = sandbox_for(config, workspace)
    if workspace is None and request.working_dir is None:
        warnings = () if in_container else (_unseen_warning(session.working_dir),)
        return scratch_of(session.id), warnings
    shown = await threads.run(session.working_dir, _shown, session.working_dir, _visible(settings, workspace))
    if shown is None:
        raise InvalidPath(
            f"working directory {folded(session.working_dir, 200)} is not visible in the container of "
            f"{'sessions without a workspace' if workspace is None else f'workspace {workspace.slug}'}",
            _visible_hint(settings, workspace),
        )
    if exists:
        await require_directory(shown, threads)
    return shown, ()


def _visible(settings: SandboxSection, workspace: Workspace | None) -> list[str]:
    """The directories of this host that the container shows at their own paths."""
    own = settings.vault if workspace is None else workspace.directory
    return [*([] if own is None else [own]), *(split_mount(mount)[0] for mount in settings.mounts)]


def _shown(path: str, visible: Iterable[str]) -> str | None:
    """The path without links, if it is visible. Blocks."""
    real = os.path.realpath(path)
    return real if any(is_within(real, os.path.realpath(place)) for place in visible) else None


def _visible_hint(settings: SandboxSection, workspace: Workspace | None) -> str:
    if workspace is not None:
        return f"use a directory in {workspace.directory}, or one of sandbox.mounts"
    if settings.vault is not None:
        return Hint(f"use a directory in {settings.vault}, or create a workspace: ", _CREATE)
    return Hint("create a workspace for the directory: ", _CREATE)


def _unseen_warning(directory: str) -> str:
    home = os.path.expanduser("~")
    # The command that a person copies must not name a directory that no container may see.
    is_project = not (system_refusal(directory) or is_within(home, directory))
    return (
        f"the agent does not see {folded(directory, 400)}: without a workspace, its container has no project "
        f"(sm workspace create NAME --working-dir {shlex.quote(directory) if is_project else 'PATH'})"
    )


def place_sentences(session: Session) -> str:
    """Describes the directories of a session in a container for its agent."""
    if session.workspace is None and is_within(session.working_dir, INSIDE_SCRATCH):
        return "Your working directory is your private scratch space. Files here are temporary."
    scratch = scratch_of(session.id)
    return (
        f"Your project directory is {folded(session.working_dir, 4096)}. "
        f"You also have a private scratch space at {scratch}/ for temporary files."
    )


# ------------------------------------------------------------------------------------------------------- MCP servers


async def contained_servers(
    config: Config, workspace: Workspace | None, grants: Grants, has_program: ProgramCheck
) -> Grants:
    """The grants with the MCP servers that work in the container, and a warning about each other server."""
    settings = sandbox_for(config, workspace)
    servers: dict[str, Mapping[str, Any]] = {}
    warnings: list[str] = []
    for name, server in grants.servers.items():
        changed, reason = _reached(server, settings)
        if reason is None and await _lacks_program(server, workspace, has_program):
            reason = f"the image of the sandbox has no program {folded(str(server['command']), 80)}"
        if reason is None:
            servers[name] = changed
        else:
            warnings.append(f"MCP server {folded(name, _NAME_SHOWN)} is left out: {reason}")
    return replace(grants, servers=servers, warnings=(*grants.warnings, *warnings))


async def _lacks_program(
    server: Mapping[str, Any], workspace: Workspace | None, has_program: ProgramCheck
) -> bool:
    """True if the image is known not to have the server's program. A program of the workspace is not in the image."""
    program = str(server.get("command", ""))
    if not program or (workspace is not None and "/" in program):
        return False
    return await has_program(workspace, program) is False


def _reached(server: Mapping[str, Any], settings: SandboxSection) -> tuple[Mapping[str, Any], str | None]:
    """The server as the container reaches it, and the reason why it cannot; a program is always reached."""
    url = server.get("url")
    if "command" in server or not isinstance(url, str):
        return server, None
    if settings.network == "none":
        return server, "the sandbox has no network (sandbox.network: none)"
    if not _is_local(url):
        return server, None
    if not settings.host_access:
        return server, "it runs on this machine, which the sandbox does not reach (sandbox.host_access: true)"
    return {**server, "url": _to_host(url, engine_of(settings.engine).host_name)}, None


def _is_local(url: str) -> bool:
    try:
        name = (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return False
    return name in _LOCAL_NAMES or name.endswith(".localhost") or name.startswith(("127.", "::ffff:127."))


def _to_host(url: str, host: str) -> str:
    """The URL with `host`, the name of this machine: in a container, localhost is the container itself."""
    parts = urlsplit(url)
    user, at, _ = parts.netloc.rpartition("@")
    port = "" if parts.port is None else f":{parts.port}"
    return urlunsplit(parts._replace(netloc=f"{user}{at}{host}{port}"))


async def require_program(
    session: Session, workspace: Workspace | None, program: str, has_program: ProgramCheck
) -> None:
    """Raise ProgramMissing if the image is known not to have the program of a session in a container."""
    if session.effective_mode is TrustLevel.SANDBOXED and await has_program(workspace, program) is False:
        raise ProgramMissing(
            f"the image of the sandbox has no program {folded(program, 80)}", missing_program_hint(program)
        )


def unknown_version(workspace: Workspace | None, program: str) -> None:
    """An `ImageVersion` that knows no image."""


async def unknown_program(workspace: Workspace | None, program: str) -> None:
    """A `ProgramCheck` that knows no image."""
