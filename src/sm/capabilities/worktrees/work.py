"""Finds the work of a session in its git repository, compares it with where it began, and merges it.

The work is the session's worktree or directory: commits, uncommitted changes and new files that git does not ignore.
"""

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from sm.capabilities.worktrees.git.calls import (
    common_of,
    git,
    is_in_operation,
    is_sandboxed,
    prepared,
    repository_around,
)
from sm.capabilities.worktrees.git.submodules import (
    changed_links,
    is_available,
    links_between,
    refuse_unpublished,
    submodules,
)
from sm.capabilities.worktrees.rules import repository_of
from sm.capabilities.worktrees.unsaved_work import has_branch
from sm.client.http import Client, session_path
from sm.core.dataclass import dataclass
from sm.core.lines import JsonObject, plural
from sm.core.session_lines import label, name_to_type
from sm.core.statuses import ENDED
from sm.core.text import folded
from sm.errors import ExternalError, IllegalState, NotPermitted
from sm.linux.repositories import UnreadableRepository, has_commit, repository_at
from sm.operations.hints import Hint, Use
from sm.operations.session_operations import SPAWN

_SHOWN_MAX = 5
_DIFF = ("diff", "--no-ext-diff", "--no-textconv")


@dataclass(frozen=True, slots=True)
class Work:
    """The work of `session` below the directory `top`, which began at the commit or tree `base`.

    `branch`: that of the session's worktree; None if the session works in a directory that others share.
    """

    client: Client
    session: JsonObject
    top: str
    common: str
    branch: str | None
    base: str

    def show(self, *options: str) -> int:
        """Print the difference as `git diff` does, on a terminal through the user's pager; return git's exit code."""
        # git 2.47 prints nothing if it cannot run its pager.
        default = "less" if shutil.which("less") else "cat"
        pager = os.environ.get("GIT_PAGER") or os.environ.get("PAGER") or default
        with self._index() as variables, prepared(self.top, (*_DIFF, *options, self.base, "--")) as ready:
            argv, environment = ready
            return subprocess.run(
                argv, env=environment | variables | {"GIT_PAGER": pager}, check=False
            ).returncode

    def files(self) -> list[JsonObject]:
        """Every changed file, with its numbers of added and deleted lines (null for a binary file)."""
        with self._index() as variables:
            listed = git(
                self.top, *_DIFF, "--numstat", "-z", "--no-renames", self.base, "--", variables=variables
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

    @contextmanager
    def _index(self) -> Iterator[dict[str, str]]:
        """A copy of the index that also lists the new files, so that the difference contains them."""
        with tempfile.TemporaryDirectory(prefix="sm-diff-") as directory:
            copy, new = f"{directory}/index", f"{directory}/new"
            with suppress(FileNotFoundError):
                # With its time: git finds a change within the same clock tick only in an index that is not newer.
                shutil.copy2(f"{repository_around(self.top).own}/index", copy)
            variables = {"GIT_INDEX_FILE": copy}
            # By name: with a directory git would look into every submodule, by its configuration.
            if paths := _new_files(self.top):
                with open(new, "wb") as file:
                    file.write(b"".join(os.fsencode(path) + b"\0" for path in paths))
                options = ("--intent-to-add", "--pathspec-file-nul", f"--pathspec-from-file={new}")
                git(self.top, "--literal-pathspecs", "add", *options, variables=variables)
            yield variables


@dataclass(frozen=True, slots=True)
class Merge:
    """A finished merge of `branch` into the branch `into` of the directory `top`. `commits`: the new ones."""

    branch: str
    into: str
    top: str
    commit: str
    commits: int
    submodules: tuple[str, ...] = ()
    """The paths of the submodules that it points to other commits."""


def work_of(client: Client, reference: str, seen: Mapping[str, object] | None = None) -> Work:
    """Find the work of a session. `seen`: as `Call.seen`; without it a program looks.

    Raises IllegalState when there is no repository, and NotPermitted for a sandboxed session.
    """
    session: JsonObject = client.get(session_path(reference), seen)
    worktree = session["worktree"]
    directory = os.path.realpath(worktree["path"] if worktree else session["working_dir"])
    if not os.path.isdir(directory):
        raise IllegalState(f"the directory of {label(session)} does not exist: {folded(directory, 4096)}")
    try:
        _refuse_sandboxed(client, session, {directory})
        top = os.path.realpath(git(directory, "rev-parse", "--show-toplevel"))
        common = common_of(top)
    except ExternalError as error:
        raise IllegalState(
            f"{label(session)} does not work in a git repository: {error.message}",
            Hint("start agents whose work you want to merge with: ", Use(SPAWN, "--worktree")),
        ) from None
    branch = worktree and str(worktree["branch"])
    if branch is None:
        base = _head_at(top, session["created_at"])
    elif has_branch(top, branch) or has_commit(repository_around(top)):
        base = _start_of_branch(top, common, branch)
    else:
        raise _without_commit(session, top, branch)
    return Work(client, session, top, common, branch, base)


def merge(work: Work, *, squash: bool) -> Merge | None:
    """Merge the branch of the session's worktree into the branch of the current directory's worktree.

    If the agent has made a branch of its own there, which has all commits, that branch is merged. Outside of the
    repository, the target is the repository's main worktree. Nothing changes when the merge is refused or has
    conflicts. Returns None when there is nothing to merge. Raises IllegalState and ExternalError.
    """
    name = label(work.session)
    main = work.branch and repository_of(str(work.session["worktree"]["path"]), work.branch)
    if work.branch is None or main is None:
        raise IllegalState(
            f"{name} has no worktree of its own: its changes are already in {folded(work.top, 4096)}",
            f"sm diff {name_to_type(work.session)}",
        )
    _refuse_unfinished(work, name)
    work = replace(work, branch=_branch_to_merge(work, name, work.branch))
    if left := _uncommitted(work, work.top):
        raise IllegalState(
            f"{name} has uncommitted changes, which a merge would leave behind: {_named(left)}",
            _hint(work, "Commit your work", f"commit them in {folded(work.top, 4096)}, then merge again"),
        )
    target = _target(work, main)
    _refuse_sandboxed(work.client, work.session, {target})
    if not has_commit(repository_around(target)):
        where = folded(target, 4096)
        raise IllegalState(
            f"the branch that is checked out in {where} has no commit",
            f"git -C {shlex.quote(where)} switch BRANCH",
        )
    into = git(target, "rev-parse", "--symbolic-full-name", "HEAD").removeprefix("refs/heads/")
    where = folded(target, 4096)
    if into == "HEAD":
        raise IllegalState(f"no branch is checked out in {where}", f"git -C {where} switch BRANCH")
    if is_in_operation(git(target, "rev-parse", "--absolute-git-dir")):
        raise IllegalState(f"a rebase, merge, cherry-pick or bisect is in progress in {where}")
    if changed := _uncommitted(work, target, new_files=False):
        raise IllegalState(
            f"{where} has uncommitted changes: {_named(changed)}", "commit or stash them first"
        )
    commits = int(git(target, "rev-list", "--count", f"HEAD..refs/heads/{work.branch}"))
    if not commits:
        return None
    if lost := _overwritten(target, work):
        raise IllegalState(
            f"the merge would overwrite files that git does not track in {where}: {_named(lost)}",
            "move them away first",
        )
    refuse_unpublished(name, work.top, target, f"refs/heads/{work.branch}")
    moved = tuple(changed_links(target, f"refs/heads/{work.branch}"))
    _merge_branch(target, work, squash=squash)
    return Merge(str(work.branch), into, target, git(target, "rev-parse", "--short", "HEAD"), commits, moved)


def _refuse_unfinished(work: Work, name: str) -> None:
    """Raises IllegalState during an operation of git."""
    if is_in_operation(git(work.top, "rev-parse", "--absolute-git-dir")):
        raise IllegalState(
            f"{name} has not finished a rebase, merge, cherry-pick or bisect in its worktree",
            _hint(work, "Finish or abort the operation of git", f"git -C {_quoted(work.top)} status"),
        )


def _branch_to_merge(work: Work, name: str, own: str) -> str:
    """The branch with all commits of the worktree: `own`, or one that the agent has made and checked out there.

    Raises IllegalState if there is none.
    """
    top, ref = work.top, f"refs/heads/{own}"
    if not has_commit(repository_around(top)):
        raise _without_commit(work.session, top, own)
    exists = has_branch(top, own)
    if exists and not git(top, "rev-list", "--max-count=1", "HEAD", f"^{ref}", "--"):
        return own
    head = git(top, "rev-parse", "--symbolic-full-name", "HEAD")
    other = head.removeprefix("refs/heads/")
    if other == head and not exists:
        raise IllegalState(
            f"the branch {own} of {name} was deleted, and no branch is checked out in its worktree",
            f"git -C {_quoted(top)} switch -c {own}",
        )
    if other == head:
        raise IllegalState(
            f"{name} has a commit that is not on its branch {own}, which a merge would leave behind",
            _hint(work, f"Bring your commits to the branch {own}", f"git -C {_quoted(top)} switch -c BRANCH"),
        )
    if exists and git(top, "rev-list", "--max-count=1", ref, "^HEAD", "--"):
        raise IllegalState(
            f"{name} has commits on two branches, {own} and {folded(other, 200)}, and a merge takes only one",
            _hint(
                work,
                f"Merge the branch {own} into the branch that is checked out",
                f"git -C {_quoted(top)} merge {own}",
            ),
        )
    return other


def _hint(work: Work, request: str, command: str) -> str:
    """The command that asks a live agent; for an ended one, what a person does."""
    if work.session["status"] in ENDED:
        return command
    return f"sm send {name_to_type(work.session)} '{request}'"


def _quoted(path: str) -> str:
    return shlex.quote(folded(path, 4096))


def _without_commit(session: JsonObject, top: str, branch: str) -> IllegalState:
    return IllegalState(
        f"{label(session)} has a branch without a commit in {folded(top, 4096)}: its branch {branch} was deleted, "
        "or it has made a new one",
        f"{folded(repository_around(top).own, 4096)}/logs/HEAD lists the commits; to restore {branch}: "
        f"git -C {_quoted(top)} branch {branch} COMMIT",
    )


def _overwritten(target: str, work: Work) -> list[str]:
    """Untracked files of the target at the place of a file of the branch. git overwrites those that it ignores."""
    change = f"HEAD...refs/heads/{work.branch}"
    listed = git(target, *_DIFF, "--name-only", "--no-renames", "--diff-filter=A", "-z", change, "--")
    lost: dict[str, None] = {}
    for path in filter(None, listed.split("\0")):
        parts = path.split("/")
        above = ("/".join(parts[:count]) for count in range(1, len(parts)))
        in_the_way = [way for way in above if _is_no_directory(os.path.join(target, way))]
        if os.path.lexists(os.path.join(target, path)):
            in_the_way.append(path)
        for way in in_the_way[:1]:
            if not git(target, "--literal-pathspecs", "ls-files", "--", way):
                lost[way] = None
    return list(lost)


def _is_no_directory(path: str) -> bool:
    return os.path.lexists(path) and (os.path.islink(path) or not os.path.isdir(path))


def _merge_branch(target: str, work: Work, *, squash: bool) -> None:
    """Raises IllegalState after undoing a merge that failed."""
    before = git(target, "rev-parse", "HEAD")
    try:
        if squash:
            git(target, "merge", "--squash", f"refs/heads/{work.branch}")
            git(target, "commit", "--quiet", "--no-edit")
        else:
            git(target, "merge", "--no-edit", f"refs/heads/{work.branch}")
        _check_submodules(target, work, before)
    except ExternalError as error:
        conflicts = git(target, "diff", "--name-only", "--diff-filter=U", "-z").split("\0")
        git(target, "reset", "--merge", before)
        problem = f"conflicts in {_named(list(filter(None, conflicts)))}" if any(conflicts) else error.message
        option = "--squash " if squash else ""
        raise IllegalState(
            f"cannot merge {folded(str(work.branch), 200)} in {folded(target, 4096)}: {problem}; nothing was changed",
            f"git -C {_quoted(target)} merge {option}{shlex.quote(str(work.branch))}",
        ) from None


def _check_submodules(target: str, work: Work, before: str) -> None:
    """Look again after the merge. Raises ExternalError if a commit of a submodule has gone meanwhile."""
    for path, commit in links_between(target, before, "HEAD").items():
        if not is_available(path, commit, work.top, target):
            raise ExternalError(f"the commit {commit[:12]} of the submodule {folded(path, 200)} is gone")


def _target(work: Work, main: str) -> str:
    with suppress(ExternalError, FileNotFoundError):
        here = repository_around(os.getcwd())
        if here.top is not None and here.common == work.common and here.top != work.top:
            return here.top
    _refuse_sandboxed(work.client, work.session, {main})
    return os.path.realpath(git(main, "rev-parse", "--show-toplevel"))


def _refuse_sandboxed(client: Client, session: JsonObject, paths: set[str]) -> None:
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
        return git(top, "hash-object", "-t", "tree", "/dev/null")


def _new_files(top: str) -> list[str]:
    """The new files, without repositories that have no commit: git would then add nothing at all."""
    listed = git(top, "ls-files", "--others", "--exclude-standard", "-z").split("\0")
    return [path for path in listed if path and (not path.endswith("/") or _has_commit(f"{top}/{path}"))]


def _has_commit(directory: str) -> bool:
    try:
        found = repository_at(os.path.realpath(directory))
    except UnreadableRepository:
        return False
    return found is not None and has_commit(found)


def _uncommitted(work: Work, top: str, *, new_files: bool = True) -> list[str]:
    listed = git(top, *_DIFF, "--name-only", "-z", "HEAD", "--")
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
    _refuse_sandboxed(work.client, work.session, {directory})
    return bool(_uncommitted(work, directory))


def _named(paths: Sequence[str]) -> str:
    more = f" and {plural(len(paths) - _SHOWN_MAX, 'more file')}" if len(paths) > _SHOWN_MAX else ""
    return f"{', '.join(folded(path, 200) for path in paths[:_SHOWN_MAX])}{more}"


def _count(number: str) -> int | None:
    return None if number == "-" else int(number)
