"""Removes the git worktrees of removed sessions, for `sm rm`."""

import os
import shlex
from collections.abc import Mapping
from typing import Any

from sm.capabilities.worktrees.git.calls import common_of, git
from sm.capabilities.worktrees.git.linked import forget_linked, remove_linked
from sm.capabilities.worktrees.git.remotes import PULL_REQUESTS
from sm.capabilities.worktrees.git.scratch_worktrees import remove_left_directories
from sm.capabilities.worktrees.missing_trees import missing_work
from sm.capabilities.worktrees.own_trees import OwnTree, tree_of_removal
from sm.capabilities.worktrees.teardown import tear_down
from sm.capabilities.worktrees.unsaved_work import (
    has_branch,
    is_main,
    is_own_worktree,
    is_squashed,
    unsaved_commits,
    unsaved_files,
)
from sm.core.text import folded
from sm.errors import (
    ExternalError,
    IllegalState,
)

_LASTING = ("refs/heads", "refs/tags", "refs/remotes", PULL_REQUESTS)
"""The refs that keep a commit. Not the stash, which goes with the next `git stash pop`."""


def clean(session: Mapping[str, Any], *, discard: bool = False) -> str | None:
    """Remove the worktree and branch of a removed session. Return a warning about the part that stays, or None.

    `session` is the daemon's answer to the removal. The worktree stays when another session works there, or when its
    removal would destroy data other than ignored files. The branch stays while it has commits that no other ref has.
    `discard`: the user was told of these files and commits, and does not want them.
    """
    tree = tree_of_removal(session)
    if session["sandboxed"]:
        return _kept(tree, "a sandboxed session may have changed the programs that git runs in it")
    if session["used"]:
        return _kept(tree, "another session works there")
    return remove_tree(tree, discard=discard)


def remove_tree(tree: OwnTree, *, discard: bool = False) -> str | None:
    """Remove a worktree in which nobody works, as `clean`. The caller knows that no sandboxed session could write."""
    path = tree.path
    reason: str | None
    failed: str | None = None
    remove_left_directories()
    try:
        if not os.path.lexists(path):
            return _prune(tree, discard=discard)
        else:
            reason = _reason_not_to_touch(tree)
            # Work that came after `unsaved_work_of` has looked: the session is deleted, so `--discard` is too late.
            # With it, a worktree stays if sm cannot look into it: nobody was told what would be lost.
            if reason is None and (work := _reason_to_keep(tree)) is not None and not discard:
                reason = f"{work}; {_by_hand(tree)}"
        if reason is None and tree.teardown:
            failed = tear_down(tree)
            if not discard:
                # Its commands may have taken long, or left something.
                reason = failed and f"{failed}; {_by_hand(tree)}"
                reason = reason or _reason_not_to_touch(tree) or _reason_to_keep(tree)
        if reason is None:
            common = common_of(path)
            # A branch whose changes exist elsewhere was not named.
            gives_up_branch = discard and not is_squashed(tree)
            remove_linked(path)
    except (ExternalError, IllegalState) as error:
        reason = error.message
    if reason is not None:
        return _kept(tree, reason)
    warnings = (failed, _remove_branch(common, tree, discard=gives_up_branch))
    return "; ".join(filter(None, warnings)) or None


def _by_hand(tree: OwnTree) -> str:
    main, path = shlex.quote(tree.repository or "."), shlex.quote(tree.path)
    return f"to delete it: git -C {main} worktree remove --force {path}"


def _kept(tree: OwnTree, reason: str) -> str:
    return f"kept the worktree {folded(tree.path, 4096)}: {reason}"


def _prune(tree: OwnTree, *, discard: bool) -> str | None:
    """Make git forget a worktree whose directory is gone, and remove its branch. Return a warning, or None."""
    main = tree.git_directory or tree.repository
    if main is None or not os.path.isdir(main):
        return None
    common = common_of(main)
    if tree.git_directory is None and not is_main(main, common):
        return None
    if not discard and (work := missing_work(tree)):
        return _kept(tree, f"its directory is missing, and git has {'; '.join(work)}")
    forget_linked(common, tree.path)
    return _remove_branch(common, tree, discard=discard)


def _remove_branch(common: str, tree: OwnTree, *, discard: bool) -> str | None:
    if not tree.is_new_branch:
        return None
    ref = f"refs/heads/{tree.branch}"
    try:
        if not has_branch(common, tree.branch):
            return None
        containing = git(common, "for-each-ref", "--format=%(refname)", f"--contains={ref}", *_LASTING)
        if discard or set(containing.split("\n")) - {ref}:
            git(common, "branch", "-D", tree.branch)
            return None
        reason = "it has commits that no other branch or tag contains"
    except ExternalError as error:
        reason = error.message
    return f"kept the branch {folded(tree.branch, 200)}: {reason}"


def _reason_not_to_touch(tree: OwnTree) -> str | None:
    """Check that the worktree is one that sm created for this branch. Return the reason to keep it, or None.

    Raises ExternalError.
    """
    path, main = tree.path, tree.repository
    if main is None or os.path.realpath(path) != path:
        return "sm did not create this worktree"
    if not is_own_worktree(tree):
        return f"it is not a worktree of the repository in {folded(main, 4096)}"
    worktrees = git(path, "worktree", "list", "--porcelain").split("\n")
    if any(entry.startswith(f"worktree {path}/") for entry in worktrees):
        return "it contains another worktree"
    return None


def _reason_to_keep(tree: OwnTree) -> str | None:
    """Check for data that `git worktree remove` would destroy. Return the reason to keep it, or None.

    Raises ExternalError.
    """
    work = [*unsaved_files(tree.path), *unsaved_commits(tree)]
    return f"it has {'; '.join(work)}" if work else None
