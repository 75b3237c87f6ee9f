"""Finds files that a merge would overwrite although nobody has committed them. git itself spares only some of them."""

import os

from sm.capabilities.worktrees.git.calls import git, git_paths
from sm.capabilities.worktrees.git.hidden_changes import hidden_changes
from sm.capabilities.worktrees.git.present_files import DIFF
from sm.capabilities.worktrees.merge_targets import MergeTarget
from sm.capabilities.worktrees.work import named_paths, quoted
from sm.errors import IllegalState


def refuse_overwriting(target: MergeTarget, branch: str) -> None:
    """Raise IllegalState if the merge would overwrite something of a person in the directory of the target."""
    if target.top is None:
        return
    change = f"{target.tip}...refs/heads/{branch}"
    if lost := _hidden_files(target.top, change):
        raise IllegalState(
            f"the merge would overwrite changes that git was told not to look at in {target.where}: "
            f"{named_paths(lost)}",
            f"to show them: git -C {quoted(target.top)} update-index --no-assume-unchanged --no-skip-worktree FILE",
        )
    if lost := _overwritten_files(target.top, change):
        raise IllegalState(
            f"the merge would overwrite files that git does not track in {target.where}: {named_paths(lost)}",
            "move them away first",
        )


def _overwritten_files(target: str, change: str) -> list[str]:
    """Untracked files of the worktree `target` at the place of a file that the change adds.

    git overwrites those that it ignores, and deletes them with a directory in whose place the change has a file.
    """
    listed = git(target, *DIFF, "--name-only", "--no-renames", "--diff-filter=A", "-z", change, "--")
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
            elif not _is_no_directory(os.path.join(target, way)):
                lost |= dict.fromkeys(git_paths(target, "--literal-pathspecs", "ls-files", "-zo", "--", way))
    return list(lost)


def _hidden_files(target: str, change: str) -> list[str]:
    """Changed files of the worktree that git was told not to look at, and that the change has too.

    git finds them in the middle of a merge, and resets them when it gives up.
    """
    hidden = hidden_changes(target)
    if not hidden:
        return []
    changed = set(git_paths(target, *DIFF, "--name-only", "--no-renames", "-z", change, "--"))
    return [path for path in hidden if path in changed]


def _is_no_directory(path: str) -> bool:
    return os.path.lexists(path) and (os.path.islink(path) or not os.path.isdir(path))
