"""Removes what is left of a worktree that was not finished, unless there may be work of somebody in it."""

import filecmp
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress

from sm.capabilities.worktrees.git.calls import git, git_paths, is_in_operation, repository_around
from sm.capabilities.worktrees.git.hidden_changes import hidden_changes
from sm.capabilities.worktrees.git.linked import forget_linked
from sm.capabilities.worktrees.git.long_commands import Report
from sm.capabilities.worktrees.git.submodules import submodules, uncommitted_submodules
from sm.capabilities.worktrees.making.claims import MARK, Claim
from sm.capabilities.worktrees.model import PlannedTree
from sm.capabilities.worktrees.nested_repositories import nested_work
from sm.capabilities.worktrees.rules import PLACE
from sm.core.text import folded
from sm.errors import ExternalError, IllegalState, SmError

_MISSING = (" D", "D ")
"""States of `git status` of a file that git has not written yet, or that was removed already."""


def remove_remains(
    plan: PlannedTree, claim: Claim, *, is_new: bool = False, report: Report = lambda *_: None
) -> None:
    """Remove what was made of the worktree of this plan: the directory, and the new branch while it is at its start.

    `is_new`: this process has just made it. Otherwise it may have stood there for days, so nothing is removed in which
    somebody has worked. Raises ExternalError for what stays.
    """
    if claim.has_worktree(plan.path):
        if not is_new:
            _refuse_work(plan, claim)
        _remove_directory(plan.path, report)
        forget_linked(plan.common, plan.path)
    above = [plan.path, os.path.dirname(plan.path)]
    if above[-1] == f"{plan.repository}/{PLACE}":
        above.append(os.path.dirname(above[-1]))  # `.sm`
    for directory in above:
        with suppress(OSError):  # only an empty one: not what somebody else has put there
            os.rmdir(directory)
    for own in claim.git_directories():
        _remove_git_directory(own)
    start = claim.start_of(plan.branch)
    if start is not None:
        with suppress(SmError):
            if _first_message(plan) == claim.message_of(plan.branch):
                git(plan.common, "update-ref", "-d", f"refs/heads/{plan.branch}", start)
    claim.clear()


def _first_message(plan: PlannedTree) -> str:
    """The first message in the log of the branch. Raises ExternalError if there is no branch."""
    words = ("log", "--walk-reflogs", "--format=%gs", f"refs/heads/{plan.branch}", "--")
    return git(plan.common, *words).rpartition("\n")[2]


def _remove_git_directory(own: str) -> None:
    """Remove the git directory of a worktree that was never made, as long as it names no worktree."""
    if os.path.lexists(f"{own}/gitdir"):
        return
    with suppress(OSError):
        for name in (MARK, "HEAD", "commondir"):
            with suppress(FileNotFoundError):
                os.unlink(f"{own}/{name}")
        os.rmdir(own)


def _remove_directory(path: str, report: Report) -> None:
    """Remove a claimed worktree; last the file by which it is known, so that a removal that is killed can go on."""
    with os.scandir(path) as entries:
        inside = [entry for entry in entries if entry.name != ".git"]
    for entry in inside:
        report("removing the worktree", None)
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            with suppress(OSError):
                os.unlink(entry.path)
    try:
        if os.listdir(path) == [".git"]:
            os.unlink(f"{path}/.git")
        os.rmdir(path)
    except OSError as error:
        raise ExternalError(f"cannot remove the worktree {path}: {error.strerror}") from None


def _refuse_work(plan: PlannedTree, claim: Claim) -> None:
    """Raise ExternalError unless it is certain that nobody has worked in the half-made worktree."""
    kept = f"kept the worktree {folded(plan.path, 4096)}"
    try:
        found = next(_work(plan, claim), None)
    except (ExternalError, IllegalState, OSError) as error:
        why = error.message if isinstance(error, (ExternalError, IllegalState)) else error.strerror
        raise ExternalError(f"{kept}: sm cannot look for work in it: {why}") from None
    if found is not None:
        raise ExternalError(f"{kept}: it has changes that exist nowhere else: {found}")


def _work(plan: PlannedTree, claim: Claim) -> Iterator[str]:
    """Describe what is in the worktree and not in its base. Raises ExternalError, IllegalState and OSError."""
    path = plan.path
    start = claim.start_of(plan.branch) or plan.start
    if not os.path.isdir(_named_directory(path)):  # git had no time to make more than the link to it
        yield from (folded(name, 200) for name in os.listdir(path) if name != ".git")
        return
    own = repository_around(path).own
    if not os.path.lexists(f"{own}/index"):  # the checkout has not finished
        yield from _unknown_files(plan, start)
        return
    if is_in_operation(own):
        yield "an unfinished rebase, merge, cherry-pick or bisect"
    head = ""
    with suppress(ExternalError):
        head = git(path, "rev-parse", "--verify", "--quiet", "HEAD")
    if head and head != start:
        yield "commits"
    for entry in git_paths(path, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all"):
        state, name = entry[:2], entry[3:]
        if state not in _MISSING and not (state == "??" and _is_copy(plan, name)):
            yield folded(name, 200)
    yield from (folded(name, 200) for name in hidden_changes(path))
    yield from (folded(name, 200) for name in uncommitted_submodules(path))
    yield from nested_work(path, submodules(path))


def _named_directory(path: str) -> str:
    with open(f"{path}/.git", encoding="utf-8", errors="surrogateescape") as file:
        return file.read().strip().removeprefix("gitdir: ")


def _unknown_files(plan: PlannedTree, start: str) -> Iterator[str]:
    """The files of a worktree that the commit does not have."""
    known = set(git_paths(plan.common, "ls-tree", "-r", "--name-only", "-z", start)) if start else set[str]()
    for directory, _, files in os.walk(plan.path, onerror=_raise):
        for file in files:
            name = os.path.relpath(f"{directory}/{file}", plan.path)
            if name not in known and name != ".git":
                yield folded(name, 200)


def _raise(error: OSError) -> None:
    raise error


def _is_copy(plan: PlannedTree, name: str) -> bool:
    """True for a file that the process has copied: it is the same as in the directory that it comes from."""
    ours, theirs = f"{plan.path}/{name}", f"{plan.source}/{name}"
    if os.path.islink(ours) or os.path.islink(theirs):
        both = os.path.islink(ours) and os.path.islink(theirs)
        return both and os.readlink(ours) == os.readlink(theirs)
    return os.path.isfile(theirs) and filecmp.cmp(ours, theirs, shallow=False)
