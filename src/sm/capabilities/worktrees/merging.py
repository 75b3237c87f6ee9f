"""Merges the work of a session into a branch. Nothing changes when that is refused or has conflicts."""

import os
import shlex
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum

from sm.capabilities.worktrees.git.calls import (
    environment_of_caller,
    git,
    git_answer,
    git_paths,
    repository_around,
)
from sm.capabilities.worktrees.git.present_files import DIFF
from sm.capabilities.worktrees.git.scratch_worktrees import scratch_worktree
from sm.capabilities.worktrees.git.submodule_commits import (
    MissingCommit,
    Unavailable,
    changed_links,
    copy_commit,
    is_available,
    missing_commits,
)
from sm.capabilities.worktrees.merge_sources import branch_to_merge, own_branch
from sm.capabilities.worktrees.merge_targets import (
    MergeTarget,
    refuse_changed_directory,
    target_of,
)
from sm.capabilities.worktrees.overwritten_files import refuse_overwriting
from sm.capabilities.worktrees.work import (
    Work,
    named_paths,
    quoted,
    refuse_sandboxed,
    uncommitted_in,
    work_of,
)
from sm.client.http import Client
from sm.core.dataclass import dataclass
from sm.core.session_lines import label
from sm.core.text import folded
from sm.errors import ExternalError, IllegalState

_AUTHOR = {
    f"GIT_{role}_{what}": f"sm{end}"
    for role in ("AUTHOR", "COMMITTER")
    for what, end in (("NAME", ""), ("EMAIL", "@localhost"))
}
"""Of a commit on no branch, which nobody sees."""


class Way(StrEnum):
    MERGE = "merge"
    SQUASH = "squash"
    """One commit of all changes."""
    REBASE = "rebase"
    """The same commits again, on top of the branch."""


class MergeTrial:
    """The outcomes of merges that are only tried: each one begins where those before it end. Moves no branch."""

    def __init__(self) -> None:
        self._tips = dict[tuple[str, str], str]()

    def tip(self, work: Work, into: str) -> str | None:
        """The commit that the branch `into` would have now, or None for that of the branch."""
        return self._tips.get((work.common, into))

    def add(self, work: Work, target: MergeTarget, way: Way, tree: str) -> None:
        """Merge: `tree` has the merged files. Writes a commit that no branch has."""
        branch = f"refs/heads/{work.branch}"
        parents = ["-p", target.tip]
        if way is not Way.SQUASH and not git(
            target.around, "rev-list", "--max-count=1", target.tip, f"^{branch}", "--"
        ):
            outcome = git(target.around, "rev-parse", branch)  # as git moves a branch forward
        else:
            if way is Way.MERGE:
                parents += ["-p", branch]
            outcome = git(
                target.around, "commit-tree", tree, *parents, "-m", "tried by sm", variables=_AUTHOR
            )
        self._tips[work.common, target.into] = outcome


@dataclass(frozen=True, slots=True)
class MergeOptions:
    way: Way = Way.MERGE
    onto: str | None = None
    """The branch to merge into. None for the one that is checked out."""
    check: str | None = None
    """A shell command that must succeed in the merged files before anything changes."""
    trial: MergeTrial | None = None
    """Only find conflicts, in the outcome of the merges that were tried before."""


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
    copied: tuple[MissingCommit, ...] = ()
    """The commits of submodules that were copied from the worktree, and that nobody has published."""


class MergeConflict(IllegalState):
    """The work and the branch have changed the same lines. `files`: their paths. `into`: the branch."""

    def __init__(self, message: str, hint: str, files: tuple[str, ...], into: str) -> None:
        super().__init__(message, hint)
        self.files = files
        self.into = into


def works_to_merge(client: Client, references: Sequence[str]) -> list[Work]:
    """Find the work of several sessions before any of it is merged, and mark them as seen. Raises as `work_of`.

    Raises IllegalState for a session without a worktree of its own.
    """
    works = [work_of(client, reference, {"seen": True}) for reference in references]
    for work in works:
        own_branch(work)
    return works


def merge(work: Work, options: MergeOptions) -> Merge | None:
    """Merge the branch of the session's worktree into a branch, by default the one of the current directory.

    If the agent has made a branch of its own there, which has all commits, that branch is merged. Outside of the
    repository, the target is the repository's main worktree. Returns None when there is nothing to merge. Raises
    MergeConflict, IllegalState, UsageError and ExternalError.
    """
    branch, (_, main) = branch_to_merge(work), own_branch(work)
    work, ref = replace(work, branch=branch), f"refs/heads/{branch}"
    target = target_of(work, main, options.onto)
    tried = None if options.trial is None else options.trial.tip(work, target.into)
    target = replace(target, tip=tried or git(target.around, "rev-parse", target.ref))
    if target.top is not None:
        refuse_changed_directory(work, target.top)
    commits = int(git(target.around, "rev-list", "--count", f"{target.tip}..{ref}", "--"))
    if not commits:
        return None
    _refuse_unrelated(work, target)
    refuse_overwriting(target, branch)
    missing = _missing_commits(work, target)
    tree = _refuse_conflicts(work, target, options)
    moved = tuple(changed_links(target.around, f"{target.tip}...{ref}"))
    if options.trial is not None:
        options.trial.add(work, target, options.way, tree)
        head = git(target.around, "rev-parse", "--short", target.ref)
        return Merge(branch, target.into, target.top, head, commits, moved)
    for commit in missing:
        _copy(work, commit)
    if target.top is not None and options.check is None and options.way is not Way.REBASE:
        _merge_in(target.top, target, work, options.way)
        head = git(target.top, "rev-parse", "--short", "HEAD")
    else:
        head = _merge_beside(work, target, options)
    return Merge(branch, target.into, target.top, head, commits, moved, missing)


def _refuse_unrelated(work: Work, target: MergeTarget) -> None:
    code, _ = git_answer(target.around, "merge-base", target.tip, f"refs/heads/{work.branch}")
    if code:
        raise IllegalState(
            f"cannot merge {folded(str(work.branch), 200)} in {target.where}: it has no commit in common with "
            f"{folded(target.into, 200)}",
            f"git -C {quoted(target.around)} merge --allow-unrelated-histories {shlex.quote(str(work.branch))}",
        )


def _missing_commits(work: Work, target: MergeTarget) -> tuple[MissingCommit, ...]:
    ref = f"refs/heads/{work.branch}"
    try:
        return tuple(missing_commits(work.top, target.top, target.tip, ref, _allowed(work)))
    except Unavailable as error:
        raise IllegalState(f"cannot merge {label(work.session)}: {error.message}", error.hint) from None


def _allowed(work: Work) -> Callable[[str], None]:
    return lambda directory: refuse_sandboxed(work.client, work.session, {directory})


def _copy(work: Work, missing: MissingCommit) -> None:
    try:
        copy_commit(missing)
    except (ExternalError, OSError) as error:
        why = error.message if isinstance(error, ExternalError) else str(error.strerror)
        raise IllegalState(
            f"cannot merge {label(work.session)}: the commit {missing.commit[:12]} of the submodule "
            f"{folded(missing.path, 200)} cannot be copied to {folded(missing.place, 4096)}: {why}",
            f"publish the commit first, then merge: {publication(missing, missing.source)}",
        ) from None


def publication(missing: MissingCommit, place: str) -> str:
    """The command that publishes a commit of a submodule from a directory that has it."""
    return f"git -C {quoted(place)} push origin {missing.commit}:refs/heads/BRANCH"


def _refuse_conflicts(work: Work, target: MergeTarget, options: MergeOptions) -> str:
    """Merge the files without changing anything. Returns the tree of the merged ones, empty if git is too old.

    Raises MergeConflict for files that the work and the branch have both changed.
    """
    trying = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z")
    try:
        code, words = git_answer(target.around, *trying, target.tip, f"refs/heads/{work.branch}")
    except ExternalError as error:
        if options.trial is None:
            return ""  # an older git finds the conflicts in the merge, which is undone then
        raise ExternalError(
            f"git cannot try a merge: {error.message}", "it needs git 2.38 or newer: git --version"
        ) from None
    if code:
        raise _conflict(work, target, options.way, tuple(dict.fromkeys(words[1:])))
    return words[0]


def _conflict(work: Work, target: MergeTarget, way: Way, files: tuple[str, ...]) -> MergeConflict:
    return MergeConflict(
        f"cannot merge {folded(str(work.branch), 200)} in {target.where}: conflicts in {named_paths(files)}; "
        "nothing was changed",
        _command(work, target, way),
        files,
        target.into,
    )


def _command(work: Work, target: MergeTarget, way: Way) -> str:
    """The command of git with which a person merges."""
    if way is Way.REBASE:
        return f"git -C {quoted(work.top)} rebase {shlex.quote(target.into)}"
    if target.top is None:  # only the branch of the work is checked out: it can take the other one
        return f"git -C {quoted(work.top)} merge {shlex.quote(target.into)}"
    option = "--squash " if way is Way.SQUASH else ""
    return f"git -C {quoted(target.around)} merge {option}{shlex.quote(str(work.branch))}"


def _merge_in(top: str, target: MergeTarget, work: Work, way: Way) -> None:
    """Merge in a directory. Raises MergeConflict and IllegalState after undoing a merge that failed."""
    before = git(top, "rev-parse", "HEAD")
    try:
        if way is Way.SQUASH:
            git(top, "merge", "--squash", f"refs/heads/{work.branch}")
            git(top, "commit", "--quiet", "--no-edit")
        else:
            git(
                top,
                "merge",
                "--no-edit",
                "-m",
                f"Merge branch '{work.branch}'{_into(target)}",
                f"refs/heads/{work.branch}",
            )
        _check_submodules(top, target, work, before)
    except ExternalError as error:
        conflicts = git_paths(top, "diff", "--name-only", "--diff-filter=U", "-z")
        with suppress(ExternalError):  # a git that was killed has left its lock
            git(top, "reset", "--merge", before)
        if top == target.top:
            _refuse_half_merged(top, target, work, error, before)
        raise _failure(work, target, way, error, conflicts) from None


def _refuse_half_merged(top: str, target: MergeTarget, work: Work, error: ExternalError, before: str) -> None:
    """Look again after undoing a merge. Raises ExternalError if it is not undone.

    A person may have changed files meanwhile, also those that the merge writes: so the person has to look before
    anything is reset.
    """
    lock, where = f"{repository_around(top).own}/index.lock", quoted(top)
    first = f"rm {quoted(lock)}, if no other git runs there; then " if os.path.lexists(lock) else ""
    what = f"cannot merge {folded(str(work.branch), 200)} in {folded(top, 4096)}: {error.message}"
    head = git(top, "rev-parse", "HEAD")
    if head != before:
        raise ExternalError(
            f"{what}; {folded(target.into, 200)} is at {head[:12]} now", f"{first}look: git -C {where} log"
        )
    change = f"{before}...refs/heads/{work.branch}"
    written = set(git_paths(top, *DIFF, "--name-only", "--no-renames", "-z", change, "--"))
    changed = [path for path in uncommitted_in(work, top, new_files=False) if path in written]
    if changed:
        raise ExternalError(
            f"{what}; it has left changes in {named_paths(changed)}",
            f"{first}look: git -C {where} diff HEAD; if nothing of it is yours: "
            f"git -C {where} reset --hard {before[:12]}",
        )


def _into(target: MergeTarget) -> str:
    """The end of the message of a merge, as git writes it."""
    return "" if target.into in ("main", "master") else f" into {target.into}"


def _failure(
    work: Work, target: MergeTarget, way: Way, error: ExternalError, conflicts: list[str]
) -> IllegalState:
    if conflicts:
        return _conflict(work, target, way, tuple(conflicts))
    return IllegalState(
        f"cannot merge {folded(str(work.branch), 200)} in {target.where}: {error.message}; nothing was changed",
        _command(work, target, way),
    )


def _merge_beside(work: Work, target: MergeTarget, options: MergeOptions) -> str:
    """Merge in a directory of its own, check the result, and only then move the branch to it. Returns the commit."""
    before = git(target.around, "rev-parse", target.ref)
    with scratch_worktree(work.top, work.common, before) as top:
        if options.way is Way.REBASE:
            _rebase_in(top, target, work, before)
        else:
            _merge_in(top, target, work, options.way)
        if options.check is not None:
            _check(options.check, top, str(work.branch))
        result = git(top, "rev-parse", "HEAD")
        if target.top is not None:
            refuse_changed_directory(work, target.top)  # the check may have taken minutes
            refuse_overwriting(target, str(work.branch))
            try:
                git(target.top, "merge", "--quiet", "--ff-only", result)
            except ExternalError as error:
                raise _failure(work, target, options.way, error, []) from None
        else:
            words = ("-m", f"sm merge {work.branch}", target.ref, result, before)
            git(target.around, "update-ref", *words)
    return git(target.around, "rev-parse", "--short", result)


def _rebase_in(top: str, target: MergeTarget, work: Work, onto: str) -> None:
    """Repeat the commits of the work on top of a commit. Raises MergeConflict and IllegalState."""
    git(top, "checkout", "--quiet", "--detach", f"refs/heads/{work.branch}")
    try:
        git(top, "rebase", "--quiet", onto)
        _check_submodules(top, target, work, onto)
    except ExternalError as error:
        conflicts = git_paths(top, "diff", "--name-only", "--diff-filter=U", "-z")
        with suppress(ExternalError):
            git(top, "rebase", "--abort")
        raise _failure(work, target, Way.REBASE, error, conflicts) from None


def _check(command: str, top: str, branch: str) -> None:
    """Run the command of a person in the merged files. Its output goes to stderr. Raises IllegalState if it fails."""
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=top,
        env=environment_of_caller(os.environ),
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


def _check_submodules(top: str, target: MergeTarget, work: Work, before: str) -> None:
    """Look again after the merge. Raises ExternalError if a commit of a submodule has gone meanwhile."""
    for path, commit in changed_links(top, before, "HEAD").items():
        if not is_available(work.top, target.top, path, commit, f"refs/heads/{work.branch}", _allowed(work)):
            raise ExternalError(f"the commit {commit[:12]} of the submodule {folded(path, 200)} is gone")
