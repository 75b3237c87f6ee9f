"""Finds the directories in which the operator starts sessions, and what a new session can have there."""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice

from sm.core.dataclass import dataclass
from sm.core.models import Session, Workspace
from sm.core.text import validate_text
from sm.errors import InvalidPath
from sm.linux.file_threads import FileThreads
from sm.linux.repositories import UnreadableRepository, find_repository, has_commit
from sm.sessions.workdir import WorkDirectories, nearest_workspace, problem_with
from sm.store import Store
from sm.store.history import EVERY
from sm.wire_types.spawn_choices import OwnPlace, SpawnDirectoryView, SpawnWorkspaceView

_USED_MAX = 20
_DIRECTORIES_MAX = 40
_PAST_MAX = 200
_WORKSPACES_MAX = 200
_WITHIN_S = 1.0
_PATH_MAX = 4096


@dataclass(frozen=True, slots=True, eq=False)
class SpawnChoices:
    """Finds what a person may choose. No call runs git, and none waits longer than a second for a file system."""

    _store: Store
    _directories: WorkDirectories
    _threads: FileThreads

    def workspaces(self) -> Sequence[SpawnWorkspaceView]:
        """The workspaces that are not deleted, by name."""
        kept = sorted(
            (w for w in self._store.workspaces.values() if w.deleted_at is None), key=lambda w: w.slug
        )
        return [SpawnWorkspaceView(w.slug, w.directory) for w in kept[:_WORKSPACES_MAX]]

    async def lately(self) -> Sequence[Session]:
        """The sessions that the operator started without a parent, the newest first."""
        past = await self._store.history.page(EVERY, None, _PAST_MAX)
        known = {s.id: s for s in (*past.sessions, *self._store.sessions.values()) if _is_by_operator(s)}
        return sorted(known.values(), key=lambda session: session.created_at, reverse=True)

    def directory(
        self, parent: Session | None, slug: str | None, working_dir: str | None, current_dir: str | None
    ) -> str | None:
        """The directory in which a session would start, as a spawn finds it, or None. Raises NotFound, InvalidPath."""
        workspace = self._directories.workspace(parent, slug)
        if working_dir is None and parent is not None:
            return parent.working_dir
        if working_dir is None and workspace is not None:
            return workspace.directory
        path = working_dir or current_dir
        if path is None:
            return None
        validate_text(path, "working directory", _PATH_MAX, one_line=True)
        if not path.startswith("/"):
            raise InvalidPath("the working directory is not an absolute path")
        return os.path.normpath(path)

    async def describe(
        self, lately: Iterable[Session], path: str | None
    ) -> tuple[SpawnDirectoryView | None, Sequence[SpawnDirectoryView]]:
        """Describe the directory `path`, and those of these sessions and of workspaces, without the unusable ones."""
        used: dict[str, str] = {}
        for session in lately:
            if (origin := _origin(session)) is not None:
                used.setdefault(origin, session.created_at)
        workspaces = {w.slug: w for w in self._store.workspaces.values() if w.deleted_at is None}
        listed = dict.fromkeys([*islice(used, _USED_MAX), *(w.directory for w in workspaces.values())])
        paths = list(listed)[:_DIRECTORIES_MAX]

        def look(some: Collection[str]) -> list[SpawnDirectoryView]:
            return [_view(each, workspaces, used.get(each)) for each in some]

        wanted = {each: each for each in (*paths, *([] if path is None else [path]))}
        answers = await self._threads.run_each(wanted, look, _WITHIN_S)
        found = {view.path: view for part in answers for view in part}
        views = {each: found.get(each) or _unknown(each, used.get(each)) for each in wanted}
        return views.get(path or ""), [views[each] for each in paths if views[each].problem is None]


def _is_by_operator(session: Session) -> bool:
    return session.parent_id is None and session.created_by == "operator"


def _origin(session: Session) -> str | None:
    """The directory that the operator chose: for a worktree the one that it was made for. None if that is unknown."""
    tree = session.worktree
    if tree is None:
        return session.working_dir
    holder, place = os.path.split(os.path.dirname(os.path.dirname(tree)))
    if os.path.basename(os.path.dirname(tree)) != "worktrees" or not place.startswith("."):
        return None
    return os.path.normpath(os.path.join(holder, os.path.relpath(session.working_dir, tree)))


def _view(path: str, workspaces: Mapping[str, Workspace], used_at: str | None) -> SpawnDirectoryView:
    """Runs in a thread."""
    around = nearest_workspace(path, workspaces)
    problem = problem_with(path)
    place = _own_place(path) if problem is None else None
    return SpawnDirectoryView(path, None if around is None else around.slug, place, problem, used_at)


def _unknown(path: str, used_at: str | None) -> SpawnDirectoryView:
    return SpawnDirectoryView(path, None, None, None, used_at)


def _own_place(path: str) -> OwnPlace:
    """Runs in a thread."""
    try:
        repository = find_repository(path)
    except UnreadableRepository:
        return OwnPlace.NONE
    if repository is None:
        return OwnPlace.COPY
    is_usable = repository.top is not None and has_commit(repository)
    return OwnPlace.WORKTREE if is_usable else OwnPlace.NONE
