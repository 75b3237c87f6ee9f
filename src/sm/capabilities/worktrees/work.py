"""Finds the work of a session in its git repository, and compares it with where it began.

The work is the session's worktree or directory: commits, uncommitted changes and new files that git does not ignore.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress

from sm.capabilities.worktrees.copies.bases import copy_base
from sm.capabilities.worktrees.deleted_branches import has_branch
from sm.capabilities.worktrees.git.calls import (
    common_of,
    git,
    is_sandboxed,
    prepared,
    repository_around,
)
from sm.capabilities.worktrees.git.present_files import DIFF, index_of_files
from sm.capabilities.worktrees.git.submodules import (
    submodules,
)
from sm.capabilities.worktrees.own_trees import OwnTree, tree_of_session
from sm.client.http import Client, session_path
from sm.core.dataclass import dataclass
from sm.core.lines import JsonObject, plural
from sm.core.session_lines import label
from sm.core.text import folded
from sm.errors import ExternalError, IllegalState, NotPermitted
from sm.linux.repositories import UnreadableRepository, has_commit, repository_at
from sm.operations.hints import Hint, Use
from sm.operations.session_operations import SPAWN

_SHOWN_MAX = 5


@dataclass(frozen=True, slots=True)
class Work:
    """The work of `session` below the directory `top`, which began at the commit or tree `base`.

    `branch`: that of the session's worktree; None if the session works in a directory that others share.
    """

    client: Client
    session: JsonObject
    tree: OwnTree | None
    top: str
    common: str
    branch: str | None
    base: str

    @property
    def is_copy(self) -> bool:
        """True if the session works in a copy of a directory without version control."""
        return self.tree is not None and self.tree.is_copy

    def show(self, *options: str) -> int:
        """Print the difference as `git diff` does, on a terminal through the user's pager; return git's exit code."""
        # git 2.47 prints nothing if it cannot run its pager.
        default = "less" if shutil.which("less") else "cat"
        pager = os.environ.get("GIT_PAGER") or os.environ.get("PAGER") or default
        with self.index() as variables, prepared(self.top, (*DIFF, *options, self.base, "--")) as ready:
            argv, environment = ready
            return subprocess.run(
                argv, env=environment | variables | {"GIT_PAGER": pager}, check=False
            ).returncode

    def files(self) -> list[JsonObject]:
        """Every changed file, with its numbers of added and deleted lines (null for a binary file)."""
        with self.index() as variables:
            listed = git(
                self.top, *DIFF, "--numstat", "-z", "--no-renames", self.base, "--", variables=variables
            )
        rows = (entry.split("\t", 2) for entry in listed.split("\0") if entry)
        return [
            {"path": path, "added": _count(added), "deleted": _count(deleted)}
            for added, deleted, path in rows
        ]

    def commits(self) -> int:
        """The number of commits since the work began."""
        if not has_commit(repository_around(self.top)):
            return 0
        return int(git(self.top, "rev-list", "--count", f"{self.base}..HEAD", "--") or 0)

    def index(self) -> AbstractContextManager[dict[str, str]]:
        """A copy of the index that also lists the new files, so that the difference contains them."""
        return index_of_files(self.top)


def work_of(client: Client, reference: str, seen: Mapping[str, object] | None = None) -> Work:
    """Find the work of a session. `seen`: as `Call.seen`; without it a program looks.

    Raises IllegalState when there is no repository, and NotPermitted for a sandboxed session.
    """
    session: JsonObject = client.get(session_path(reference), seen)
    tree = tree_of_session(client, session)
    directory = os.path.realpath(tree.path if tree else session["working_dir"])
    if not os.path.isdir(directory):
        raise IllegalState(f"the directory of {label(session)} does not exist: {folded(directory, 4096)}")
    try:
        refuse_sandboxed(client, session, {directory})
        top = os.path.realpath(git(directory, "rev-parse", "--show-toplevel"))
        common = common_of(top)
    except ExternalError as error:
        if tree is not None:
            kind = "copy" if tree.is_copy else "worktree"
            raise IllegalState(
                f"the {kind} of {label(session)} is no git repository any more: {error.message}",
                f"look there yourself: {folded(directory, 4096)}",
            ) from None
        raise IllegalState(
            f"{label(session)} does not work in a git repository: {error.message}",
            Hint(
                "start agents whose work you want to merge with: ",
                Use(SPAWN, "--worktree"),
                "; without git: ",
                Use(SPAWN, "--copy"),
            ),
        ) from None
    branch = None if tree is None else tree.branch
    if tree is None or branch is None:
        base = _head_at(top, session["created_at"])
    elif tree.is_copy:
        base = copy_base(tree.path, tree.start)
    elif tree.start == "":
        base = _empty_tree(top)
    elif has_branch(top, branch) or has_commit(repository_around(top)):
        base = tree.start or _start_of_branch(top, common, branch)
    else:
        raise without_commit(session, top, branch)
    return Work(client, session, tree, top, common, branch, base)


def quoted(path: str) -> str:
    return shlex.quote(folded(path, 4096))


def without_commit(session: JsonObject, top: str, branch: str) -> IllegalState:
    return IllegalState(
        f"{label(session)} has a branch without a commit in {folded(top, 4096)}: its branch {branch} was deleted, "
        "or it has made a new one",
        f"{folded(repository_around(top).own, 4096)}/logs/HEAD lists the commits; to restore {branch}: "
        f"git -C {quoted(top)} branch {branch} COMMIT",
    )


def refuse_sandboxed(client: Client, session: JsonObject, paths: set[str]) -> None:
    if session["effective_mode"] != "direct" or is_sandboxed(client, paths):
        raise NotPermitted(
            f"a sandboxed session may have changed the programs that git runs in {folded(min(paths), 4096)}",
            "look at it inside the sandbox, or run git there yourself if you trust its configuration",
        )


def _start_of_branch(top: str, common: str, branch: str) -> str:
    """The commit at which sm created the branch: the first entry of its reflog, else the merge base."""
    with suppress(ExternalError):
        if entries := git(top, "log", "--walk-reflogs", "--format=%H", f"refs/heads/{branch}", "--"):
            return entries.rpartition("\n")[2]
    main = os.path.dirname(common) if os.path.basename(common) == ".git" else common
    return git(top, "merge-base", "HEAD", git(main, "rev-parse", "HEAD"))


def _head_at(top: str, at: str) -> str:
    """The commit that was checked out at this time; the empty tree before the first commit."""
    try:
        return git(top, "rev-parse", "--verify", f"HEAD@{{{at}}}")
    except ExternalError:
        return _empty_tree(top)


def _empty_tree(top: str) -> str:
    return git(top, "hash-object", "-t", "tree", "/dev/null")


def uncommitted_in(work: Work, top: str, *, new_files: bool = True) -> list[str]:
    listed = git(top, *DIFF, "--name-only", "-z", "HEAD", "--")
    if new_files:
        listed += "\0" + git(top, "ls-files", "--others", "--exclude-standard", "-z")
    inside = (path for path in submodules(top) if _is_changed_inside(work, f"{top}/{path}"))
    return list(dict.fromkeys((*filter(None, listed.split("\0")), *inside)))


def _is_changed_inside(work: Work, directory: str) -> bool:
    """Look into a submodule as into a repository of its own: git would look by the submodule's configuration."""
    if os.path.realpath(directory) != directory:
        return False
    try:
        found = repository_at(directory)
        if found is None or not has_commit(found):
            return False
    except UnreadableRepository as error:
        raise IllegalState(f"git does not run in {folded(directory, 4096)}: {error}") from None
    refuse_sandboxed(work.client, work.session, {directory})
    return bool(uncommitted_in(work, directory))


def named_paths(paths: Sequence[str]) -> str:
    more = f" and {plural(len(paths) - _SHOWN_MAX, 'more file')}" if len(paths) > _SHOWN_MAX else ""
    return f"{', '.join(folded(path, 200) for path in paths[:_SHOWN_MAX])}{more}"


def _count(number: str) -> int | None:
    return None if number == "-" else int(number)
