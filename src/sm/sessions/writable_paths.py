"""Knows every path of this machine that a sandboxed session of any time could write.

A container's writable mounts are stored before the container is made, and never forgotten: the session may be removed,
its workspace deleted, and the configuration changed, but what was written there stays.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from sm.config import SandboxSection, split_mount
from sm.core.dataclass import dataclass
from sm.core.models import Workspace
from sm.errors import SmError
from sm.paths import is_within
from sm.sandboxes.git_directory import linked_worktree
from sm.sandboxes.path_map import Mount
from sm.store import Store


@dataclass(frozen=True, slots=True)
class StartingSession:
    """A sandboxed session that has no process yet, and nobody else has been in its container since the time `since`."""

    session_id: str
    workspace: str | None
    since: str


class WritablePaths:
    """`settings`: of the container of a workspace, or None for the default container."""

    def __init__(self, store: Store, settings: Callable[[Workspace | None], SandboxSection]) -> None:
        self._store = store
        self._settings = settings
        self._stored = set[str]()

    async def record(self, workspace: str | None, mounts: Iterable[Mount]) -> None:
        """Store the writable paths of a container, before any program can run in it. Idempotent."""
        new = {mount.source for mount in mounts if mount.writable} - self._stored
        if not new:
            return
        async with self._store.transaction() as tx:
            for path in sorted(new):
                statement = "INSERT OR IGNORE INTO writable_paths (path, workspace, at) VALUES (?, ?, ?)"
                tx.write(statement, (path, workspace, tx.now))
        self._stored |= new

    async def all(self, starting: "StartingSession | None" = None) -> tuple[str, ...]:
        """Every path that a sandboxed session of any time could write. Its files and directories count too.

        `starting`: a session without a process, which has written nothing yet.
        """
        if starting is None:
            stored, sandboxed = await self._store.writable.all(), await self._store.writable.of_sessions()
        else:
            stored = await self._store.writable.all(starting.workspace, starting.since)
            sandboxed = await self._store.writable.of_sessions(starting.session_id, starting.since)
        used = {workspace for _, workspace in sandboxed}
        found = [*stored, *(directory for directory, _ in sandboxed)]
        if found:
            found += self._configured(None)
        for workspace in self._store.workspaces.values():
            if workspace.slug in used or workspace.directory in stored:
                found += (workspace.directory, *self._configured(workspace))
        return tuple(dict.fromkeys(found))

    async def among(self, paths: Sequence[str], starting: "StartingSession | None" = None) -> tuple[str, ...]:
        """Return the paths that such a session could write, wholly or in part, or replace. `starting`: as for `all`."""
        writable = await self.all(starting)
        return await asyncio.to_thread(_among, paths, writable)

    def _configured(self, workspace: Workspace | None) -> Iterator[str]:
        """The mounts of today's configuration: those of containers that an earlier version of sm made."""
        with suppress(SmError):  # an override that is no longer valid
            for mount in self._settings(workspace).mounts:
                path, is_writable = split_mount(mount)
                if is_writable:
                    yield path


def _among(paths: Sequence[str], writable: Sequence[str]) -> tuple[str, ...]:
    """Compare names, and the directories themselves: the same one may have two names, by a bind mount."""
    real = dict.fromkeys((*writable, *map(os.path.realpath, writable)))
    for directory in list(real):
        # An earlier version of sm mounted the git directory of a linked worktree writable.
        if (worktree := linked_worktree(directory)) is not None:
            real[worktree.common] = None
    identities = {found for path in real if (found := _identity(path)) is not None}
    above = {
        found for path in real for directory in _above(path) if (found := _identity(directory)) is not None
    }

    def meets(path: str) -> bool:
        names = dict.fromkeys((os.path.normpath(path), os.path.realpath(path)))
        if any(is_within(name, other) or is_within(other, name) for name in names for other in real):
            return True
        own = [_identity(directory) for name in names for directory in (name, *_above(name))]
        return any(found in identities for found in own) or own[0] in above

    return tuple(path for path in dict.fromkeys(paths) if meets(path))


def _above(path: str) -> Iterator[str]:
    """The directories around a path, without the root."""
    while (path := os.path.dirname(path)) not in ("/", ""):
        yield path


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino
