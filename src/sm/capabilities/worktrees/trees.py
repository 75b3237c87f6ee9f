"""Removes the git worktrees of removed sessions, for `sm rm`."""

import os
import shlex
from collections.abc import Callable, Collection, Mapping
from typing import Any

from sm.capabilities.worktrees.copies.copy_work import copy_work, refuse_removal, remove_copy
from sm.capabilities.worktrees.deleted_branches import has_branch, other_refs
from sm.capabilities.worktrees.git.calls import common_of, git, is_sandboxed
from sm.capabilities.worktrees.git.linked import (
    check_removable,
    contains_linked,
    forget_linked,
    remove_linked,
)
from sm.capabilities.worktrees.git.scratch_worktrees import remove_left_directories
from sm.capabilities.worktrees.missing_trees import lock_of, missing_work
from sm.capabilities.worktrees.own_trees import OwnTree, tree_of_removal
from sm.capabilities.worktrees.removal_lock import removal_lock
from sm.capabilities.worktrees.teardown import tear_down
from sm.capabilities.worktrees.unsaved_work import (
    SANDBOXED,
    is_main,
    is_own_worktree,
    unsaved_commits,
    unsaved_files,
)
from sm.capabilities.worktrees.work_parts import WorkPart, not_given_up
from sm.client.http import Client
from sm.core.text import folded
from sm.errors import ExternalError, SmError


def clean(
    client: Client,
    removal: Mapping[str, Any],
    repeat: Callable[[], Mapping[str, Any]],
    given_up: Collection[str] | None = None,
) -> str | None:
    """Remove the worktree and branch of a removed session. Return a warning about the part that stays, or None.

    `removal`: the daemon's answer to the removal. `repeat`: sends the same request again, with its Idempotency-Key: the
    answer says who works in the worktree by then. It stays when another session works there, or when its removal would
    destroy data other than ignored files. The branch stays while it has commits that no other ref has.

    `given_up`: the files and commits (`WorkPart.items`) that the user was told of and does not want, or None if nobody
    has said so.
    """
    tree = tree_of_removal(removal)

    def reason_of_use() -> str | None:
        now = repeat()
        return reason_of_sessions(client, tree, used=now["used"], sandboxed=now["sandboxed"])

    return remove_tree(tree, reason_of_use, given_up)


def reason_of_sessions(client: Client, tree: OwnTree, *, used: bool, sandboxed: bool = False) -> str | None:
    """Return why nobody but its sessions may touch a worktree now, or None. Raises SmError if that is unknown.

    `used`, `sandboxed`: what the daemon has just said.
    """
    if sandboxed or is_sandboxed(client, {tree.repository or tree.path, tree.path}):
        return SANDBOXED
    return "another session works there" if used else None


def remove_tree(
    tree: OwnTree, reason_of_use: Callable[[], str | None], given_up: Collection[str] | None = None
) -> str | None:
    """Remove a worktree as `clean`.

    `reason_of_use`: asks the daemon, and returns why nobody may touch the worktree now, or None. A session may begin to
    work there at any time, so it is asked again before each step that cannot be undone. May raise SmError.
    """
    remove_left_directories()
    try:
        if (reason := reason_of_use()) is not None:
            return _kept(tree, reason)
        if not os.path.lexists(tree.path):
            return _prune(tree, given_up)
        with removal_lock(tree.path) as lock:
            return _remove(tree, reason_of_use, given_up, lock)
    except SmError as error:
        return _kept(tree, error.message)
    except OSError as error:
        return _kept(tree, f"{folded(os.fsdecode(error.filename or ''), 4096)}: {error.strerror}")


def _remove(
    tree: OwnTree,
    reason_of_use: Callable[[], str | None],
    given_up: Collection[str] | None,
    lock: int | None,
) -> str | None:
    failed = None
    # Work that came after `unsaved_work_of` has looked: the session is deleted, so `--discard` is too late for it.
    reason = _reason_to_keep(tree, reason_of_use, given_up)
    if reason is None and tree.teardown:
        failed = tear_down(tree, lock)
        if failed is not None and given_up is None:
            reason = f"{failed}; to run it again: sm worktree prune; without it: sm worktree prune --discard"
        else:  # its commands may have taken long, or left something
            reason = _reason_to_keep(tree, reason_of_use, given_up)
    if reason is not None:
        return _kept(tree, "; ".join(filter(None, (failed if given_up is not None else None, reason))))
    if tree.is_copy:
        remove_copy(tree.path)
        return failed
    common = common_of(tree.path)
    remove_linked(tree.path)
    warnings = (failed, _remove_branch(common, tree, given_up))
    return "; ".join(filter(None, warnings)) or None


def _reason_to_keep(
    tree: OwnTree, reason_of_use: Callable[[], str | None], given_up: Collection[str] | None
) -> str | None:
    """Check for sessions in the worktree, and for data that its removal would destroy. Return the reason, or None.

    Asks for sessions last too, because git may take minutes. Raises SmError.
    """
    reason = reason_of_use() or _reason_not_to_touch(tree)
    if reason is not None:
        return reason
    # With `--discard` too a worktree stays if sm cannot look into it: nobody was told what would be lost.
    work = not_given_up(_work(tree), given_up)
    if work:
        return f"it has {'; '.join(work)}; {_by_hand(tree)}"
    return reason_of_use()


def _work(tree: OwnTree) -> list[WorkPart]:
    if tree.is_copy and tree.repository is not None:
        return copy_work(tree.path, tree.repository, tree.start)
    return [*unsaved_files(tree.path), *unsaved_commits(tree)]


def _by_hand(tree: OwnTree) -> str:
    main, path = shlex.quote(tree.repository or "."), shlex.quote(tree.path)
    if tree.is_copy:
        return f"to delete it: rm -r {path}"
    return f"to delete it: git -C {main} worktree remove --force {path}"


def _kept(tree: OwnTree, reason: str) -> str:
    return f"kept the worktree {folded(tree.path, 4096)}: {reason}"


def _prune(tree: OwnTree, given_up: Collection[str] | None) -> str | None:
    """Make git forget a worktree whose directory is gone, and remove its branch. Return a warning, or None."""
    main = tree.git_directory or tree.repository
    if main is None or not os.path.isdir(main):
        return None
    common = common_of(main)
    if tree.git_directory is None and not is_main(main, common):
        return None
    if (lock := lock_of(tree)) is not None:  # its file system may not be mounted now
        main = shlex.quote(tree.repository or main)
        unlock = f"git -C {main} worktree unlock {shlex.quote(tree.path)}"
        return _kept(tree, f"its directory is missing, and {lock}; to unlock it: {unlock}")
    if work := not_given_up(missing_work(tree), given_up):
        return _kept(tree, f"its directory is missing, and git has {'; '.join(work)}")
    forget_linked(common, tree.path)
    return _remove_branch(common, tree, given_up)


def _remove_branch(common: str, tree: OwnTree, given_up: Collection[str] | None) -> str | None:
    """Remove the new branch if its commits are in other refs too, or were given up. Return a warning, or None.

    Not with commits that were not named, such as those of a branch whose changes exist elsewhere.
    """
    if not tree.is_new_branch:
        return None
    try:
        if not has_branch(common, tree.branch):
            return None
        tip = f"refs/heads/{tree.branch}"
        commits = git(common, "rev-list", tip, "--not", *other_refs(tree, ()), "--").split()
        if frozenset(commits) <= frozenset(given_up or ()):
            git(common, "branch", "-D", tree.branch)
            return None
        reason = "it has commits that no other branch or tag contains"
    except ExternalError as error:
        reason = error.message
    return f"kept the branch {folded(tree.branch, 200)}: {reason}"


def _reason_not_to_touch(tree: OwnTree) -> str | None:
    """Check that the worktree is one that sm created for this branch. Return the reason to keep it, or None.

    Raises ExternalError, and IllegalState as `check_removable`.
    """
    path, main = tree.path, tree.repository
    if main is None or os.path.realpath(path) != path:
        return "sm did not create this worktree"
    if tree.is_copy:
        refuse_removal(path)
        return None
    if not is_own_worktree(tree):
        return f"it is not a worktree of the repository in {folded(main, 4096)}"
    if contains_linked(common_of(path), path):
        return "it contains another worktree"
    check_removable(path)
    return None
