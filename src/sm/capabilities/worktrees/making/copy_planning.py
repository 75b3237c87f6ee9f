"""Plans a copy of a directory without version control: its place and its branch. Changes nothing."""

import os

from sm.capabilities.worktrees.making.planning import Allow, tree_name, tree_path
from sm.capabilities.worktrees.model import PlannedTree, TreeWish
from sm.capabilities.worktrees.rules import branch_name
from sm.core.text import folded
from sm.errors import UsageError
from sm.linux.repositories import UnreadableRepository, find_repository
from sm.operations.hints import Argument, Hint


def plan_copy(
    directory: str, name: str | None, wish: TreeWish, place: str, branch_pattern: str, allow: Allow
) -> PlannedTree:
    """Plan a copy of `directory`. The arguments are as those of `plan_tree`.

    Raises UsageError for a directory in a git repository, and for a place where no copy can be made; NotPermitted.
    """
    main = os.path.realpath(directory)
    try:
        is_in_repository = find_repository(main) is not None
    except UnreadableRepository:
        is_in_repository = True
    except OSError as error:
        raise UsageError(f"{folded(directory, 200)} cannot be read: {error.strerror}") from None
    if is_in_repository:
        raise UsageError(
            f"{folded(directory, 200)} is in a git repository, of which sm makes no copy",
            Hint("start the agent in a worktree of it: ", Argument("worktree")),
        )
    if not os.access(main, os.R_OK | os.X_OK) or not os.path.isdir(main):
        raise UsageError(f"{folded(directory, 200)} is no directory that you may read")
    name = tree_name(name, wish)
    path = tree_path(main, place, name)
    allow({path, main}, main)
    return PlannedTree(path, branch_name(branch_pattern, main, name), path, main, f"{path}/.git", main)
