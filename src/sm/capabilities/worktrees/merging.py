"""Merges the work of a session into a branch. Nothing changes when that is refused or has conflicts."""

import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from enum import StrEnum

from sm.capabilities.worktrees.git.calls import (
    environment,
    git,
    git_answer,
    git_paths,
    is_in_operation,
    repository_around,
)
from sm.capabilities.worktrees.git.linked import add_linked
from sm.capabilities.worktrees.git.own_directory import settings_of
from sm.capabilities.worktrees.git.submodules import (
    changed_links,
    is_available,
    links_between,
    refuse_unpublished,
)
from sm.capabilities.worktrees.overwritten_files import refuse_overwriting
from sm.capabilities.worktrees.rules import is_branch
from sm.capabilities.worktrees.unsaved_work import has_branch
from sm.capabilities.worktrees.work import (
    Work,
    named_paths,
    quoted,
    refuse_sandboxed,
    uncommitted_in,
    without_commit,
)
from sm.core.dataclass import dataclass
from sm.core.session_lines import label, name_to_type
from sm.core.statuses import ENDED
from sm.core.text import folded
from sm.errors import ExternalError, IllegalState, UsageError
from sm.linux.repositories import checkouts, has_commit


class Way(StrEnum):
    MERGE = "merge"
    SQUASH = "squash"
    """One commit of all changes."""
    REBASE = "rebase"
    """The same commits again, on top of the branch."""


@dataclass(frozen=True, slots=True)
class MergeOptions:
    way: Way = Way.MERGE
    onto: str | None = None
    """The branch to merge into. None for the one that is checked out."""
    check: str | None = None
    """A shell command that must succeed in the merged files before anything changes."""
    dry_run: bool = False
    """Only find conflicts."""


@dataclass(frozen=True, slots=True)
class Merge:
    """A finished merge of `branch` into the branch `into`. `commits`: the new ones.

    `top`: the directory where `into` is checked out, or None if it is nowhere.
    """

    branch: str
    into: str
    top: str | None
    commit: str
    commits: int
    submodules: tuple[str, ...] = ()
    """The paths of the submodules that it points to other commits."""


class MergeConflict(IllegalState):
    """The work and the branch have changed the same lines. `files`: their paths. `into`: the branch."""

    def __init__(self, message: str, hint: str, files: tuple[str, ...], into: str) -> None:
        super().__init__(message, hint)
        self.files = files
        self.into = into


@dataclass(frozen=True, slots=True)
class _Target:
    """The branch to merge into, and the directory where it is checked out, or None."""

    into: str
    top: str | None
    around: str
    """A directory of the repository, for git: `top` if there is one."""

    @property
    def ref(self) -> str:
        return f"refs/heads/{self.into}"

    @property
    def where(self) -> str:
        return folded(self.into, 200) if self.top is None else folded(self.top, 4096)


def merge(work: Work, options: MergeOptions) -> Merge | None:
    """Merge the branch of the session's worktree into a branch, by default the one of the current directory.

    If the agent has made a branch of its own there, which has all commits, that branch is merged. Outside of the
    repository, the target is the repository's main worktree. Returns None when there is nothing to merge. Raises
    MergeConflict, IllegalState, UsageError and ExternalError.
    """
    name = label(work.session)
    main = None if work.tree is None else work.tree.repository
    if work.branch is None or main is None:
        raise IllegalState(
            f"{name} has no worktree of its own: its changes are already in {folded(work.top, 4096)}",
            f"sm diff {name_to_type(work.session)}",
        )
    _refuse_unfinished(work, name)
    work = replace(work, branch=_branch_to_merge(work, name, work.branch))
    if left := uncommitted_in(work, work.top):
        raise IllegalState(
            f"{name} has uncommitted changes, which a merge would leave behind: {named_paths(left)}",
            _hint(work, "Commit your work", f"commit them in {folded(work.top, 4096)}, then merge again"),
        )
    target = _target(work, main, options.onto)
    if target.top is not None:
        _check_directory(work, target.top)
    commits = int(git(target.around, "rev-list", "--count", f"{target.ref}..refs/heads/{work.branch}", "--"))
    if not commits:
        return None
    if target.top is not None:
        refuse_overwriting(target.top, str(work.branch))
    refuse_unpublished(name, work.top, target.around, f"refs/heads/{work.branch}")
    _refuse_conflicts(work, target, options)
    moved = tuple(changed_links(target.around, f"refs/heads/{work.branch}"))
    if options.dry_run:
        head = git(target.around, "rev-parse", "--short", target.ref)
    elif target.top is not None and options.check is None and options.way is not Way.REBASE:
        _merge_in(target.top, target, work, options.way)
        head = git(target.top, "rev-parse", "--short", "HEAD")
    else:
        head = _merge_beside(work, target, options)
    return Merge(str(work.branch), target.into, target.top, head, commits, moved)


def _target(work: Work, main: str, onto: str | None) -> _Target:
    """The branch to merge into. Raises IllegalState, UsageError and NotPermitted."""
    if onto is None:
        top = _directory(work, main)
        refuse_sandboxed(work.client, work.session, {top})
        if not has_commit(repository_around(top)):
            where = folded(top, 4096)
            raise IllegalState(
                f"the branch that is checked out in {where} has no commit",
                f"git -C {shlex.quote(where)} switch BRANCH",
            )
        into = git(top, "rev-parse", "--symbolic-full-name", "HEAD").removeprefix("refs/heads/")
        if into == "HEAD":
            where = folded(top, 4096)
            raise IllegalState(f"no branch is checked out in {where}", f"git -C {where} switch BRANCH")
        return _Target(into, top, top)
    if not is_branch(onto) or not has_branch(work.top, onto):
        raise UsageError(
            f"there is no branch {folded(onto, 80)!r} in {folded(main, 4096)}",
            f"git -C {quoted(main)} branch",
        )
    repository = repository_around(work.top)
    for place in checkouts(repository, is_bare=settings_of(repository).bare):
        if place.branch == onto:
            refuse_sandboxed(work.client, work.session, {place.top})
            return _Target(onto, place.top, place.top)
    return _Target(onto, None, work.top)


def _directory(work: Work, main: str) -> str:
    with suppress(ExternalError, FileNotFoundError):
        here = repository_around(os.getcwd())
        if here.top is not None and here.common == work.common and here.top != work.top:
            return here.top
    refuse_sandboxed(work.client, work.session, {main})
    if settings_of(repository_around(work.top)).bare:
        raise IllegalState(
            f"the repository in {folded(main, 4096)} is bare: no branch is checked out in it",
            f"sm merge {name_to_type(work.session)} --onto BRANCH",
        )
    return os.path.realpath(git(main, "rev-parse", "--show-toplevel"))


def _check_directory(work: Work, top: str) -> None:
    """Raises IllegalState if a merge in the directory could touch the work of a person there."""
    where = folded(top, 4096)
    if is_in_operation(git(top, "rev-parse", "--absolute-git-dir")):
        raise IllegalState(f"a rebase, merge, cherry-pick or bisect is in progress in {where}")
    if changed := uncommitted_in(work, top, new_files=False):
        raise IllegalState(
            f"{where} has uncommitted changes: {named_paths(changed)}", "commit or stash them first"
        )


def _refuse_conflicts(work: Work, target: _Target, options: MergeOptions) -> None:
    """Raises MergeConflict, before anything changes, for files that the work and the branch have both changed."""
    options_of_git = ("--write-tree", "--name-only", "--no-messages", "-z")
    code, words = git_answer(
        target.around, "merge-tree", *options_of_git, target.ref, f"refs/heads/{work.branch}"
    )
    if code == 1:
        raise _conflict(work, target, options, tuple(dict.fromkeys(words[1:])))
    if code and options.dry_run:
        raise ExternalError("git cannot try a merge", "update git to version 2.38 or newer")
    # An older git finds the conflicts in the merge, which is undone then.


def _conflict(work: Work, target: _Target, options: MergeOptions, files: tuple[str, ...]) -> MergeConflict:
    return MergeConflict(
        f"cannot merge {folded(str(work.branch), 200)} in {target.where}: conflicts in {named_paths(files)}; "
        "nothing was changed",
        _command(work, target, options.way),
        files,
        target.into,
    )


def _command(work: Work, target: _Target, way: Way) -> str:
    """The command of git with which a person merges."""
    if way is Way.REBASE:
        return f"git -C {quoted(work.top)} rebase {shlex.quote(target.into)}"
    option = "--squash " if way is Way.SQUASH else ""
    return f"git -C {quoted(target.around)} merge {option}{shlex.quote(str(work.branch))}"


def _refuse_unfinished(work: Work, name: str) -> None:
    """Raises IllegalState during an operation of git."""
    if is_in_operation(git(work.top, "rev-parse", "--absolute-git-dir")):
        raise IllegalState(
            f"{name} has not finished a rebase, merge, cherry-pick or bisect in its worktree",
            _hint(work, "Finish or abort the operation of git", f"git -C {quoted(work.top)} status"),
        )


def _branch_to_merge(work: Work, name: str, own: str) -> str:
    """The branch with all commits of the worktree: `own`, or one that the agent has made and checked out there.

    Raises IllegalState if there is none.
    """
    top, ref = work.top, f"refs/heads/{own}"
    if not has_commit(repository_around(top)):
        raise without_commit(work.session, top, own)
    exists = has_branch(top, own)
    if exists and not git(top, "rev-list", "--max-count=1", "HEAD", f"^{ref}", "--"):
        return own
    head = git(top, "rev-parse", "--symbolic-full-name", "HEAD")
    other = head.removeprefix("refs/heads/")
    if other == head and not exists:
        raise IllegalState(
            f"the branch {own} of {name} was deleted, and no branch is checked out in its worktree",
            f"git -C {quoted(top)} switch -c {own}",
        )
    if other == head:
        raise IllegalState(
            f"{name} has a commit that is not on its branch {own}, which a merge would leave behind",
            _hint(work, f"Bring your commits to the branch {own}", f"git -C {quoted(top)} switch -c BRANCH"),
        )
    if exists and git(top, "rev-list", "--max-count=1", ref, "^HEAD", "--"):
        raise IllegalState(
            f"{name} has commits on two branches, {own} and {folded(other, 200)}, and a merge takes only one",
            _hint(
                work,
                f"Merge the branch {own} into the branch that is checked out",
                f"git -C {quoted(top)} merge {own}",
            ),
        )
    return other


def _hint(work: Work, request: str, command: str) -> str:
    """The command that asks a live agent; for an ended one, what a person does."""
    if work.session["status"] in ENDED:
        return command
    return f"sm send {name_to_type(work.session)} '{request}'"


def _merge_in(top: str, target: _Target, work: Work, way: Way) -> None:
    """Merge in a directory. Raises MergeConflict and IllegalState after undoing a merge that failed."""
    before = git(top, "rev-parse", "HEAD")
    try:
        if way is Way.SQUASH:
            git(top, "merge", "--squash", f"refs/heads/{work.branch}")
            git(top, "commit", "--quiet", "--no-edit")
        else:
            message = f"Merge branch '{work.branch}'{_into(target)}"
            git(top, "merge", "--no-edit", "-m", message, f"refs/heads/{work.branch}")
        _check_submodules(top, work, before)
    except ExternalError as error:
        conflicts = git_paths(top, "diff", "--name-only", "--diff-filter=U", "-z")
        git(top, "reset", "--merge", before)
        raise _failure(work, target, way, error, conflicts) from None


def _into(target: _Target) -> str:
    """The end of the message of a merge, as git writes it."""
    return "" if target.into in ("main", "master") else f" into {target.into}"


def _failure(
    work: Work, target: _Target, way: Way, error: ExternalError, conflicts: list[str]
) -> IllegalState:
    if conflicts:
        return _conflict(work, target, MergeOptions(way), tuple(conflicts))
    return IllegalState(
        f"cannot merge {folded(str(work.branch), 200)} in {target.where}: {error.message}; nothing was changed",
        _command(work, target, way),
    )


def _merge_beside(work: Work, target: _Target, options: MergeOptions) -> str:
    """Merge in a directory of its own, check the result, and only then move the branch to it. Returns the commit."""
    before = git(target.around, "rev-parse", target.ref)
    with _scratch(work, before) as top:
        if options.way is Way.REBASE:
            _rebase_in(top, target, work, before)
        else:
            _merge_in(top, target, work, options.way)
        if options.check is not None:
            _check(options.check, top, str(work.branch))
        result = git(top, "rev-parse", "HEAD")
        if target.top is not None:
            _check_directory(work, target.top)  # the check may have taken minutes
            refuse_overwriting(target.top, str(work.branch))
            git(target.top, "merge", "--quiet", "--ff-only", result)
        else:
            words = ("-m", f"sm merge {work.branch}", target.ref, result, before)
            git(target.around, "update-ref", *words)
    return git(target.around, "rev-parse", "--short", result)


def _rebase_in(top: str, target: _Target, work: Work, onto: str) -> None:
    """Repeat the commits of the work on top of a commit. Raises MergeConflict and IllegalState."""
    git(top, "checkout", "--quiet", "--detach", f"refs/heads/{work.branch}")
    try:
        git(top, "rebase", "--quiet", onto)
        _check_submodules(top, work, onto)
    except ExternalError as error:
        conflicts = git_paths(top, "diff", "--name-only", "--diff-filter=U", "-z")
        with suppress(ExternalError):
            git(top, "rebase", "--abort")
        raise _failure(work, target, Way.REBASE, error, conflicts) from None


@contextmanager
def _scratch(work: Work, commit: str) -> Iterator[str]:
    """A worktree at a commit, on no branch, which is removed afterwards. Raises ExternalError."""
    with tempfile.TemporaryDirectory(prefix="sm-merge-") as directory:
        top = os.path.realpath(f"{directory}/files")
        try:
            add_linked(work.top, work.common, top, "--detach", top, commit)
            git(top, "reset", "--quiet", "--hard")
            yield top
        finally:
            with suppress(ExternalError, IllegalState):
                git(work.common, "worktree", "remove", "--force", top)


def _check(command: str, top: str, branch: str) -> None:
    """Run the command of a person in the merged files. Its output goes to stderr. Raises IllegalState if it fails."""
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=top,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=2,
        check=False,
    )
    if done.returncode:
        how = f"exit code {done.returncode}" if done.returncode > 0 else f"signal {-done.returncode}"
        raise IllegalState(
            f"the check of the merged files failed with {how}, so {folded(branch, 200)} was not merged: "
            f"{folded(command, 200)}"
        )


def _check_submodules(target: str, work: Work, before: str) -> None:
    """Look again after the merge. Raises ExternalError if a commit of a submodule has gone meanwhile."""
    for path, commit in links_between(target, before, "HEAD").items():
        if not is_available(path, commit, work.top, target):
            raise ExternalError(f"the commit {commit[:12]} of the submodule {folded(path, 200)} is gone")
