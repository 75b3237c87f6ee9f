"""Follows spawns, and removals of sessions."""

import asyncio
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Any, ClassVar

from sm.capabilities.worktrees.maker import TreeMaker, changed_by_sandbox, git_environment
from sm.capabilities.worktrees.model import PlannedTree, TreeWish
from sm.capabilities.worktrees.rules import ANOTHER_NAME, PLACE, map_to_repository, project_of, repository_of
from sm.capabilities.worktrees.tables import PART, TreeRow, TreeState, earlier_row
from sm.config import AgentConfig
from sm.core.dataclass import dataclass
from sm.core.effects import EffectKind
from sm.core.models import Launch, Session, SpawnRequest
from sm.core.states import TrustLevel
from sm.core.text import folded, validate_text
from sm.errors import InvalidPath, UsageError
from sm.linux.repositories import UnreadableRepository, find_repository, places_of
from sm.operations.hints import Argument, Hint
from sm.paths import is_within
from sm.providers.base import Provider
from sm.sandboxes.home import ContainerHome
from sm.sessions.keepers import PlaceUse, RemovedSession, SessionKeeper
from sm.sessions.session_fields import SessionField
from sm.sessions.spawn_parts import PreparedPlace, SpawnAddition, SpawnPart
from sm.sessions.writable_paths import WritablePaths
from sm.store import Store, Transaction

_PATH_MAX = 4096
_NAME_MAX = 300
_PULL_REQUESTS_MAX = 10**9
_UMASK = 0o022


@dataclass(frozen=True, slots=True)
class SpawnWorktree(SpawnAddition):
    """The git worktree that the caller has made for a new session."""

    path: str
    branch: str

    async def complete(
        self, session: Session, provider: Provider, launch: Launch, home: ContainerHome | None
    ) -> Session:
        return replace(session, worktree=self.path, branch=self.branch)


@dataclass(frozen=True, slots=True)
class WantedWorktree(SpawnAddition):
    """A git worktree that the daemon makes before the session starts."""

    plan: PlannedTree
    environment: Mapping[str, str] = field(repr=False)

    needs_caller: ClassVar[bool] = True  # a plan may take so long that a person presses Ctrl-C

    async def complete(
        self, session: Session, provider: Provider, launch: Launch, home: ContainerHome | None
    ) -> Session:
        return replace(session, worktree=self.plan.path, branch=self.plan.branch)

    async def insert(self, tx: Transaction, session: Session) -> None:
        """Raises UsageError if another session has got the worktree since it was planned."""
        trees = tx.part(PART)
        path, branch, common = self.plan.path, self.plan.branch, self.plan.common
        for row in trees.rows.values():
            owner = tx.find(row.session_id)
            if row.state is TreeState.MADE and (owner is None or owner.exit is not None):
                continue  # git has been asked since, and the process that makes the directory replaces none
            if row.path == path or (row.plan.common, row.plan.branch) == (common, branch):
                what = f"worktree {path}" if row.path == path else f"branch {folded(branch, 200)}"
                raise UsageError(f"{what} belongs to another session", ANOTHER_NAME)
        trees.put(TreeRow(path, session.id, TreeState.PLANNED, self.plan, self.environment, None, tx.now))
        await tx.effect(EffectKind.WORKTREE, session.id, {"path": path}, tx.now)
        await tx.update(session, status_reason="its worktree is being made")


class SpawnWorktrees(SpawnPart):
    """Plans the worktrees of new sessions. A worktree belongs to the project and the workspace of its repository."""

    def __init__(self, store: Store, maker: TreeMaker) -> None:
        self._trees = store.part(PART)
        self._maker = maker

    async def prepare(
        self,
        request: SpawnRequest,
        parent: Session | None,
        working_dir: str,
        environment: Mapping[str, str],
        process_limits: Mapping[str, int],
    ) -> PreparedPlace | None:
        wish = _wish(request)
        if wish is None:
            return None
        if parent is not None and parent.effective_mode is not TrustLevel.DIRECT:
            raise changed_by_sandbox(working_dir)
        name = None if request.name is None else request.name.lower()
        # Nothing that an agent has named counts: it would run beside the daemon, as the operator.
        given = (environment, request.environment) if parent is None else ({}, {})
        environment = git_environment(*given)
        plan = await self._maker.plan(
            working_dir, name, wish, environment, process_limits.get("umask", _UMASK)
        )
        return PreparedPlace(plan.directory, WantedWorktree(plan, environment))

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
        found = project_of(directory)
        if found != directory:
            return found
        rows = (row for row in self._trees.rows.values() if is_within(directory, row.path))
        return next((row.plan.repository for row in rows), directory)

    def restore_warnings(self, session: Session) -> Sequence[str]:
        row = self._trees.of(session.id)
        if row is None or row.made is None or row.made.is_set_up:
            return ()
        return (
            f"the worktree {row.path} is not set up: its set-up failed or was ended, and is not repeated",
        )

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
        row = self._store.part(PART).rows.get(removed.worktree)
        if row is not None and row.session_id != removed.session_id:
            return PlaceUse(used=True, sandboxed=False)  # it was made again, for another session
        repository = repository_of(removed.worktree, removed.branch) if row is None else row.plan.repository
        used, places = await asyncio.to_thread(_use, removed, repository, living)
        sandboxed = removed.effective_mode != TrustLevel.DIRECT or await self._writable.among(places)
        if row is None:
            await self._remember(removed)
            return PlaceUse(used, bool(sandboxed))
        commands = row.plan.commands
        return PlaceUse(
            used,
            bool(sandboxed),
            repository,
            row.git_directory,
            row.start,
            not row.plan.is_new_branch,
            commands.teardown,
            commands.teardown_within_s,
        )

    async def _remember(self, removed: RemovedSession) -> None:
        """Store the worktree that an earlier version of sm has made: it may stay, and only its session knew it."""
        if not await asyncio.to_thread(os.path.lexists, removed.worktree):
            return
        async with self._store.transaction() as tx:
            row = earlier_row(removed.session_id, removed.worktree, removed.branch, tx.now)
            if row is not None and tx.part(PART).find(row.path) is None:
                tx.part(PART).put(row)


class CopyField(SessionField):
    """The directory of which a session has a copy, for every door."""

    name = "copy_of"

    def __init__(self, store: Store) -> None:
        self._trees = store.part(PART)

    def ids(self) -> Collection[str]:
        return [row.session_id for row in self._trees.rows.values() if row.plan.is_copy]

    def value(self, session_id: str) -> str | None:
        row = self._trees.of(session_id)
        return row.plan.repository if row is not None and row.plan.is_copy else None


def _wish(request: SpawnRequest) -> TreeWish | None:
    """The worktree that the daemon makes. Raises UsageError for options of one that is not wanted."""
    given = request.additions
    wish = TreeWish(
        _text(given.get("base"), "base"),
        _text(given.get("branch"), "branch"),
        given.get("pull_request"),
        _text(given.get("remote_branch"), "remote-branch"),
        _text(given.get("remote"), "remote"),
        copy=bool(given.get("new_copy")),
    )
    if wish.pull_request is not None and not 0 < wish.pull_request < _PULL_REQUESTS_MAX:
        raise UsageError(
            f"invalid pull request {folded(str(wish.pull_request), 20)}",
            Hint("give its number: ", Argument("pr", "12")),
        )
    if wish.copy:
        _refuse_for_copy(given)
    if wish.copy or given.get("new_worktree"):
        if given.get("worktree") is not None:
            raise UsageError("a session has one worktree: omit either worktree or new_worktree")
        return wish
    alone = wish.branch is not None and given.get("worktree") is None
    for what, is_given in (
        ("a base", wish.base is not None),
        ("a pull request", wish.pull_request is not None),
        ("a branch of a remote", wish.remote_branch is not None),
        ("a remote", wish.remote is not None),
        ("a branch", alone),
    ):
        if is_given:
            raise UsageError(
                f"{what} is only for a new worktree",
                Hint("ask for a new worktree too: ", Argument("worktree")),
            )
    return None


def _refuse_for_copy(given: Mapping[str, Any]) -> None:
    """Raise UsageError for an option of a git worktree."""
    for what, name in (
        ("a base", "base"),
        ("a branch", "branch"),
        ("a pull request", "pull_request"),
        ("a branch of a remote", "remote_branch"),
        ("a remote", "remote"),
    ):
        if given.get(name) is not None:
            raise UsageError(f"{what} is for a git worktree, not for a copy of a directory")


def _text(value: str | None, what: str) -> str | None:
    return None if value is None else validate_text(value, what, _NAME_MAX, one_line=True)


def _worktree(request: SpawnRequest) -> SpawnWorktree | None:
    """The worktree of a request. Raises UsageError for one that sm does not make."""
    path, branch = request.additions.get("worktree"), request.additions.get("branch")
    if request.additions.get("new_worktree") or request.additions.get("new_copy"):
        return None
    if path is None:
        return None
    if branch is None:
        raise UsageError("the branch of a worktree must be given with its path")
    tree = os.path.normpath(validate_text(path, "worktree", _PATH_MAX, one_line=True))
    branch = validate_text(branch, "branch", _PATH_MAX, one_line=True)
    if repository_of(tree, branch) is None:
        raise UsageError(
            f"worktree {folded(tree, 200)} with branch {folded(branch, 80)} was not created by sm",
            f"sm creates the worktree DIRECTORY/{PLACE}/NAME with the branch sm/NAME",
        )
    return SpawnWorktree(tree, branch)


def _use(removed: RemovedSession, repository: str | None, living: Collection[str]) -> tuple[bool, list[str]]:
    """Return True if a session works in the worktree, and every place that git would use there.

    `repository`: its main directory, if it is known. `living`: directories of live sessions.
    """
    worktree = os.path.realpath(removed.worktree)
    places = [worktree, os.path.realpath(repository or worktree)]
    for directory in list(places):
        with suppress(UnreadableRepository, OSError):  # the client will find that too, and run no git
            if (found := find_repository(directory)) is not None:
                places += places_of(found)
    return is_used(worktree, living), places


def is_used(worktree: str, living: Iterable[str]) -> bool:
    """True if one of the directories, those of live sessions, is in the worktree. Blocks."""
    top = os.path.realpath(worktree)
    return any(is_within(os.path.realpath(directory), top) for directory in living)
