"""Finds the work of a session in its git repository, compares it with where it began, and merges it.

The work is the session's worktree or directory: commits, uncommitted changes and new files that git does not ignore.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from sm.cli.git import command_line, common_of, environment, git, is_in_operation, is_sandboxed
from sm.client.http import Client, session_path
from sm.core.lines import JsonObject, plural
from sm.core.session_lines import label, name_to_type
from sm.core.text import folded
from sm.core.worktrees import repository_of
from sm.errors import ExternalError, IllegalState, NotPermitted

_SHOWN_MAX = 5
_DIFF = ("diff", "--no-ext-diff", "--no-textconv")


@dataclass(frozen=True, slots=True)
class Work:
    """The work of `session` below the directory `top`, which began at the commit or tree `base`.

    `branch`: that of the session's worktree; None if the session works in a directory that others share.
    """

    session: JsonObject
    top: str
    common: str
    branch: str | None
    base: str

    def show(self, *options: str) -> int:
        """Print the difference as `git diff` does, on a terminal through the user's pager; return git's exit code."""
        with self._index() as variables:
            # The repository's own configuration must not choose the program that shows the difference.
            pager = os.environ.get("GIT_PAGER") or os.environ.get("PAGER") or "less"
            arguments = command_line(self.top, (*_DIFF, *options, self.base, "--"))
            return subprocess.run(
                arguments, env=environment() | variables | {"GIT_PAGER": pager}, check=False
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
        return int(git(self.top, "rev-list", "--count", f"{self.base}..HEAD", "--") or 0)

    @contextmanager
    def _index(self) -> Iterator[dict[str, str]]:
        """A copy of the index that also lists the new files, so that the difference contains them."""
        with tempfile.TemporaryDirectory(prefix="sm-diff-") as directory:
            copy, own = f"{directory}/index", git(self.top, "rev-parse", "--git-path", "index")
            with suppress(FileNotFoundError):
                # With its time: git finds a change within the same clock tick only in an index that is not newer.
                shutil.copy2(os.path.join(self.top, own), copy)
            variables = {"GIT_INDEX_FILE": copy}
            # git would add nothing because of one repository without a commit.
            omitted = [f":(exclude,literal){path}" for path in _empty_repositories(self.top)]
            git(self.top, "add", "--intent-to-add", "--", ".", *omitted, variables=variables)
            yield variables


@dataclass(frozen=True, slots=True)
class Merge:
    """A finished merge into the branch `into` of the directory `top`. `commits`: the number of new commits."""

    into: str
    top: str
    commit: str
    commits: int


def work_of(client: Client, reference: str) -> Work:
    """Raises IllegalState when there is no repository, and NotPermitted for a sandboxed session."""
    session: JsonObject = client.get(session_path(reference))
    worktree = session["worktree"]
    directory = os.path.realpath(worktree["path"] if worktree else session["working_dir"])
    if not os.path.isdir(directory):
        raise IllegalState(f"the directory of {label(session)} does not exist: {folded(directory, 4096)}")
    _refuse_sandboxed(client, session, {directory})
    try:
        top = os.path.realpath(git(directory, "rev-parse", "--show-toplevel"))
        common = common_of(top)
    except ExternalError as error:
        raise IllegalState(
            f"{label(session)} does not work in a git repository: {error.message}",
            "start agents whose work you want to merge with: sm spawn --worktree",
        ) from None
    _refuse_sandboxed(client, session, {top, common})
    branch = worktree and str(worktree["branch"])
    base = _start_of_branch(top, common, branch) if branch else _head_at(top, session["created_at"])
    return Work(session, top, common, branch, base)


def merge(work: Work, *, squash: bool) -> Merge | None:
    """Merge the branch of the session's worktree into the branch of the current directory's worktree.

    Outside of the repository, the target is the repository's main worktree. Nothing changes when the merge is refused
    or has conflicts. Returns None when there is nothing to merge. Raises IllegalState and ExternalError.
    """
    name = label(work.session)
    main = work.branch and repository_of(str(work.session["worktree"]["path"]), work.branch)
    if work.branch is None or main is None:
        raise IllegalState(
            f"{name} has no worktree of its own: its changes are already in {folded(work.top, 4096)}",
            f"sm diff {name_to_type(work.session)}",
        )
    _refuse_unfinished(work, name)
    if left := _uncommitted(work.top):
        raise IllegalState(
            f"{name} has uncommitted changes, which a merge would leave behind: {_named(left)}",
            f"sm send {name_to_type(work.session)} 'Commit your work'",
        )
    target = _target(work, main)
    into = git(target, "rev-parse", "--symbolic-full-name", "HEAD").removeprefix("refs/heads/")
    where = folded(target, 4096)
    if into == "HEAD":
        raise IllegalState(f"no branch is checked out in {where}", f"git -C {where} switch BRANCH")
    if is_in_operation(git(target, "rev-parse", "--absolute-git-dir")):
        raise IllegalState(f"a rebase, merge, cherry-pick or bisect is in progress in {where}")
    if changed := _uncommitted(target, new_files=False):
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
    _merge_branch(target, work, squash=squash)
    return Merge(into, target, git(target, "rev-parse", "--short", "HEAD"), commits)


def _refuse_unfinished(work: Work, name: str) -> None:
    """Raises IllegalState if the branch does not have all commits of the worktree."""
    session_id = work.session["session_id"]
    if is_in_operation(git(work.top, "rev-parse", "--absolute-git-dir")):
        raise IllegalState(
            f"{name} has not finished a rebase, merge, cherry-pick or bisect in its worktree",
            f"sm send {session_id} 'Finish or abort the operation of git'",
        )
    if git(work.top, "rev-list", "--max-count=1", "HEAD", f"^refs/heads/{work.branch}"):
        raise IllegalState(
            f"{name} has a commit that is not on its branch {work.branch}, which a merge would leave behind",
            f"sm send {session_id} 'Bring your commits to the branch {work.branch}'",
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
    except ExternalError as error:
        conflicts = git(target, "diff", "--name-only", "--diff-filter=U", "-z").split("\0")
        git(target, "reset", "--merge", before)
        problem = f"conflicts in {_named(list(filter(None, conflicts)))}" if any(conflicts) else error.message
        option = "--squash " if squash else ""
        raise IllegalState(
            f"cannot merge {work.branch} in {folded(target, 4096)}: {problem}; nothing was changed",
            f"git -C {folded(target, 4096)} merge {option}{work.branch}",
        ) from None


def _target(work: Work, main: str) -> str:
    with suppress(ExternalError, FileNotFoundError):
        here = os.path.realpath(git(os.getcwd(), "rev-parse", "--show-toplevel"))
        if common_of(here) == work.common and here != work.top:
            return here
    return os.path.realpath(git(main, "rev-parse", "--show-toplevel"))


def _refuse_sandboxed(client: Client, session: JsonObject, paths: set[str]) -> None:
    if session["effective_mode"] != "direct" or is_sandboxed(client, paths):
        raise NotPermitted(
            f"a sandboxed session may have changed the programs that git runs in {folded(min(paths), 4096)}",
            "look at it inside the sandbox, or run git there yourself",
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


def _empty_repositories(top: str) -> list[str]:
    """The repositories without a commit among the new files."""
    listed = git(top, "ls-files", "--others", "--exclude-standard", "-z").split("\0")
    return [path for path in listed if path.endswith("/") and not _has_commit(os.path.join(top, path))]


def _has_commit(repository: str) -> bool:
    try:
        git(repository, "rev-parse", "--verify", "HEAD")
    except ExternalError:
        return False
    return True


def _uncommitted(top: str, *, new_files: bool = True) -> list[str]:
    # The repository's configuration could hide the changes of a submodule.
    listed = git(top, *_DIFF, "--ignore-submodules=none", "--name-only", "-z", "HEAD", "--")
    if new_files:
        listed += "\0" + git(top, "ls-files", "--others", "--exclude-standard", "-z")
    return [path for path in listed.split("\0") if path]


def _named(paths: Sequence[str]) -> str:
    more = f" and {plural(len(paths) - _SHOWN_MAX, 'more file')}" if len(paths) > _SHOWN_MAX else ""
    return f"{', '.join(folded(path, 200) for path in paths[:_SHOWN_MAX])}{more}"


def _count(number: str) -> int | None:
    return None if number == "-" else int(number)
