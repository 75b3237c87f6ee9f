"""Finds the workspace and the working directory of a new session."""

import os
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from sm.config import Config
from sm.core.models import NO_WORKSPACE, Caller, Session, SpawnRequest, Workspace
from sm.core.states import TrustLevel
from sm.core.text import folded, validate_text
from sm.errors import InvalidPath, NotFound, UsageError
from sm.linux.file_threads import FileThreads
from sm.operations.hints import Argument, Hint
from sm.paths import is_within
from sm.policy.relations import spawn_workspace
from sm.store import Store

_ADD_PATH = Hint("add ", Argument("working_dir", "PATH"))
_PATH_MAX = 4096


class WorkDirectories:
    def __init__(self, config: Config, store: Store, threads: FileThreads) -> None:
        self._settings = config.sessions
        self._store = store
        self._threads = threads

    def workspace_of(self, session: Session) -> Workspace | None:
        """The session's workspace, also if it is deleted."""
        return self._store.workspaces.get(session.workspace or "")

    def workspace(self, parent: Session | None, slug: str | None) -> Workspace | None:
        """The requested workspace, or that of the parent. Raises NotFound.

        A session gets the same error for a foreign workspace as for one that does not exist.
        """
        if parent is not None:
            if slug is not None and slug != (parent.workspace or NO_WORKSPACE):
                raise NotFound(
                    f"no such workspace: {folded(slug, 80)}",
                    "omit --workspace: a child joins its parent's workspace",
                )
            return self.workspace_of(parent)
        if slug is None or slug == NO_WORKSPACE:
            return None
        workspace = self._store.workspaces.get(slug)
        if workspace is None or workspace.deleted_at is not None:
            raise no_such_workspace(slug, self._store.workspaces.values())
        return workspace

    async def nearest(self, path: str) -> Workspace | None:
        """The innermost workspace that contains this directory."""
        return await self._threads.run(path, nearest_workspace, path, self._store.workspaces)

    async def find_nearest(self, current_dir: str) -> Workspace | None:
        """`nearest` for an unchecked path of a caller. Raises InvalidPath, InvalidText."""
        path = validate_text(current_dir, "current directory", _PATH_MAX, one_line=True)
        if not path.startswith("/"):
            raise InvalidPath(f"current directory {folded(path, 200)!r} is not an absolute path")
        return await self.nearest(path)

    async def working_dir(
        self, parent: Session | None, request: SpawnRequest, workspace: Workspace | None
    ) -> str:
        """The directory on this host; of a child of a session in a container unchecked.

        Raises UsageError if the request must name a directory, InvalidPath and InvalidText for an unusable one.
        """
        path = request.working_dir
        contained = parent is not None and parent.effective_mode is TrustLevel.SANDBOXED
        if path is None and parent is None and workspace is not None:
            path = workspace.directory
        if path is None and self._settings.default_working_dir_behavior == "specify":
            raise UsageError(
                "no working directory given (sessions.default_working_dir_behavior is specify)", _ADD_PATH
            )
        if path is None:
            path = parent.working_dir if parent is not None else request.current_dir
        if path is None:
            raise UsageError("no working directory given, and the caller has none", _ADD_PATH)
        validate_text(path, "working directory", _PATH_MAX, one_line=True)
        if parent is not None and not path.startswith("/"):
            path = _beside(parent, path)
        if not path.startswith("/"):
            raise InvalidPath(f"working directory {folded(path, 200)!r} is not an absolute path")
        # An agent in a container must not learn which paths exist on this host: `contained_directory` checks it.
        if not contained:
            await require_directory(path, self._threads)
        return path


def _beside(parent: Session, path: str) -> str:
    """The path as the parent means it: from its directory, or from its home.

    The home of a container is not known here.
    """
    if not path.startswith("~"):
        return os.path.normpath(os.path.join(parent.working_dir, path))
    return path if parent.effective_mode is TrustLevel.SANDBOXED else os.path.expanduser(path)


def allowed_workspace(caller: Caller, slug: str | None) -> str | None:
    """As `policy`. Raises NotFound, with the same message for a foreign workspace and for one that does not exist."""
    try:
        return spawn_workspace(caller, slug)
    except ValueError:
        raise NotFound(
            f"no such workspace: {folded(slug or NO_WORKSPACE, 80)}",
            "omit the workspace: the sessions of a paired user start where the user is paired",
        ) from None


def no_such_workspace(slug: str, workspaces: Iterable[Workspace]) -> NotFound:
    """The error for an unknown slug, with a similar one of the workspaces that are not deleted."""
    near = get_close_matches(slug[:64], [w.slug for w in workspaces if w.deleted_at is None], n=1)
    hint = f"did you mean {near[0]}?" if near else "list workspaces: sm workspace list"
    return NotFound(f"no such workspace: {folded(slug, 80)}", hint)


async def require_directory(path: str, threads: FileThreads) -> None:
    """Raise InvalidPath unless a process can start in this working directory."""
    problem = await threads.run(path, problem_with, path)
    if problem is not None:
        raise InvalidPath(f"working directory {path} {problem}")


def nearest_workspace(working_dir: str, workspaces: Mapping[str, Workspace]) -> Workspace | None:
    """The innermost workspace that contains this directory. Blocks on files."""
    path = os.path.realpath(working_dir)
    containing = [w for w in workspaces.values() if w.deleted_at is None and is_within(path, w.directory)]
    return max(containing, key=lambda w: len(w.directory), default=None)


def problem_with(path: str) -> str | None:
    """The reason why no process can start in this directory, or None. Blocks on files."""
    try:
        os.stat(path)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        return "does not exist" if missing else f"cannot be used: {error.strerror}"
    if not os.path.isdir(path):
        return "is not a directory"
    return None if os.access(path, os.X_OK) else "cannot be entered: permission denied"
