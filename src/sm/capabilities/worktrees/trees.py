"""Removes the git worktrees of removed sessions, for `sm rm`."""

import os
import shlex
from collections.abc import Mapping
from typing import Any

from sm.capabilities.worktrees.git.calls import common_of, git
from sm.capabilities.worktrees.git.linked import forget_linked
from sm.capabilities.worktrees.git.submodules import submodules
from sm.capabilities.worktrees.own_trees import OwnTree, tree_of_removal
from sm.capabilities.worktrees.teardown import tear_down
from sm.capabilities.worktrees.unsaved_work import (
    has_branch,
    is_main,
    is_own_worktree,
    unsaved_commits,
    unsaved_files,
)
from sm.core.text import folded
from sm.errors import (
    ExternalError,
    IllegalState,
)


def clean(session: Mapping[str, Any], *, discard: bool = False) -> str | None:
    """Remove the worktree and branch of a removed session. Return a warning about the part that stays, or None.

    `session` is the daemon's answer to the removal. The worktree stays when another session works there, or when its
    removal would destroy data other than ignored files. The branch stays while it has commits that no other ref has.
    `discard`: the user does not want these files and commits.
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
    try:
        if not os.path.lexists(path):
            return _prune(tree, discard=discard)
        else:
            reason = _reason_not_to_touch(tree)
            # Work that came after `unsaved_work_of` has looked: the session is deleted, so `--discard` is too late.
            if reason is None and not discard and (work := _reason_to_keep(tree)) is not None:
                reason = f"{work}; {_by_hand(tree)}"
        if reason is None and tree.teardown:
            failed = tear_down(tree)
            if not discard:
                # Its commands may have taken long, or left something.
                reason = failed and f"{failed}; {_by_hand(tree)}"
                reason = reason or _reason_not_to_touch(tree) or _reason_to_keep(tree)
        if reason is None:
            common = common_of(path)
            git(common, "worktree", "remove", *(["--force"] if discard else _force(path)), path)
    except (ExternalError, IllegalState) as error:
        reason = error.message
    if reason is not None:
        return _kept(tree, reason)
    warnings = (failed, _remove_branch(common, tree, discard=discard))
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
    is_known = tree.git_directory is not None or is_main(main, common)
    if not is_known or not git(main, "for-each-ref", f"refs/heads/{tree.branch}"):
        return None
    forget_linked(common, tree.path)
    return _remove_branch(common, tree, discard=discard)


def _remove_branch(common: str, tree: OwnTree, *, discard: bool) -> str | None:
    if not tree.is_new_branch:
        return None
    ref = f"refs/heads/{tree.branch}"
    try:
        containing = git(common, "for-each-ref", "--format=%(refname)", f"--contains={ref}")
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
    if work := [*unsaved_files(tree.path), *unsaved_commits(tree)]:
        return f"it has {'; '.join(work)}"
    if has_branch(tree.path, tree.branch) or tree.start == "":
        return None
    return f"there is no branch {tree.branch}"


def _force(path: str) -> list[str]:
    """The option without which git removes no worktree with a submodule, even an empty one."""
    return ["--force"] if submodules(path) else []
