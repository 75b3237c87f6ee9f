"""Follows spawns, and removals of sessions."""

import asyncio
import os
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace

from sm.capabilities.worktrees.rules import PLACE, map_to_repository, project_of, repository_of
from sm.config import AgentConfig
from sm.core.dataclass import dataclass
from sm.core.models import Launch, Session, SpawnRequest
from sm.core.states import TrustLevel
from sm.core.text import folded, validate_text
from sm.errors import InvalidPath, UsageError
from sm.linux.repositories import UnreadableRepository, find_repository, places_of
from sm.paths import is_within
from sm.providers.base import Provider
from sm.sandboxes.home import ContainerHome
from sm.sessions.keepers import PlaceUse, RemovedSession, SessionKeeper
from sm.sessions.spawn_parts import SpawnAddition, SpawnPart
from sm.sessions.writable_paths import WritablePaths
from sm.store import Store

_PATH_MAX = 4096


@dataclass(frozen=True, slots=True)
class SpawnWorktree(SpawnAddition):
    """The git worktree that the caller has made for a new session."""

    path: str
    branch: str

    async def complete(
        self, session: Session, provider: Provider, launch: Launch, home: ContainerHome | None
    ) -> Session:
        return replace(session, worktree=self.path, branch=self.branch)


class SpawnWorktrees(SpawnPart):
    """Checks the worktrees of new sessions. A worktree belongs to the project and the workspace of its repository."""

    def place(self, request: SpawnRequest, working_dir: str) -> str:
        tree = _worktree(request)
        if tree is None:
            return working_dir
        if not is_within(working_dir, tree.path):
            raise InvalidPath(
                f"working directory {working_dir} is not inside the worktree {folded(tree.path, 200)}"
            )
        return map_to_repository(working_dir, tree.path, tree.branch)

    def project_of(self, directory: str) -> str:
        return project_of(directory)

    def plan(
        self, session: Session, request: SpawnRequest | None, agent: AgentConfig | None
    ) -> SpawnAddition:
        return (None if request is None else _worktree(request)) or SpawnAddition()


class WorktreeUses(SessionKeeper):
    """Finds the sessions that work in the worktree of a removed one, which the client would delete."""

    def __init__(self, store: Store, writable: WritablePaths) -> None:
        self._store = store
        self._writable = writable

    async def use_of(self, removed: RemovedSession) -> PlaceUse | None:
        if not removed.worktree:
            return None
        living = {s.working_dir for s in self._store.sessions.values() if s.exit is None}
        used, places = await asyncio.to_thread(_use, removed, living)
        sandboxed = removed.effective_mode != TrustLevel.DIRECT or await self._writable.among(places)
        return PlaceUse(used, bool(sandboxed))


def _worktree(request: SpawnRequest) -> SpawnWorktree | None:
    """The worktree of a request. Raises UsageError for one that sm does not make."""
    path, branch = request.additions.get("worktree"), request.additions.get("branch")
    if (path is None) is not (branch is None):
        raise UsageError("worktree and branch must be given together")
    if path is None or branch is None:
        return None
    tree = os.path.normpath(validate_text(path, "worktree", _PATH_MAX, one_line=True))
    branch = validate_text(branch, "branch", _PATH_MAX, one_line=True)
    if repository_of(tree, branch) is None:
        raise UsageError(
            f"worktree {folded(tree, 200)} with branch {folded(branch, 80)} was not created by sm",
            f"sm creates the worktree DIRECTORY/{PLACE}/NAME with the branch sm/NAME",
        )
    return SpawnWorktree(tree, branch)


def _use(removed: RemovedSession, living: Collection[str]) -> tuple[bool, list[str]]:
    """Return True if a session works in the worktree, and every place that git would use there.

    `living`: directories of live sessions.
    """
    worktree = os.path.realpath(removed.worktree)
    places = [worktree, os.path.realpath(repository_of(removed.worktree, removed.branch) or worktree)]
    for directory in list(places):
        with suppress(UnreadableRepository, OSError):  # the client will find that too, and run no git
            if (repository := find_repository(directory)) is not None:
                places += places_of(repository)
    return any(is_within(os.path.realpath(directory), worktree) for directory in living), places
