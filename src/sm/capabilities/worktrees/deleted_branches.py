"""Finds the branches of worktrees, and the commits of deleted ones that only the log of their worktree still has.

`directory`: one that git may run in, a worktree or its git directory.
"""

import re
from collections.abc import Collection

from sm.capabilities.worktrees.git.calls import git
from sm.capabilities.worktrees.git.remotes import PULL_REQUESTS
from sm.capabilities.worktrees.own_trees import OwnTree
from sm.capabilities.worktrees.work_parts import WorkPart
from sm.core.lines import plural
from sm.core.text import folded

_RENAMED = re.compile("Branch: renamed refs/heads/([^ ]+) to refs/heads/([^ ]+)")


def has_branch(directory: str, branch: str) -> bool:
    ref = f"refs/heads/{branch}"
    return git(directory, "for-each-ref", "--format=%(refname)", ref) == ref


def other_refs(tree: OwnTree, leaving: Collection[str], *, keeps_branch: bool = False) -> list[str]:
    """The options of git for the refs that stay when the worktree is removed, with its new branch or without it.

    Not the stash, which goes with the next `git stash pop`.
    """
    own = [f"--exclude={branch}" for branch in leaving if branch != tree.branch]
    own += [f"--exclude={tree.branch}"] if tree.is_new_branch and not keeps_branch else []
    return [*own, "--branches", "--tags", "--remotes", f"--glob={PULL_REQUESTS}/*"]


def commits_of_deleted_branch(directory: str, tree: OwnTree, leaving: Collection[str] = ()) -> list[WorkPart]:
    """Describe the commits of a branch that was deleted, if only the log of the worktree still has them."""
    if tree.start == "" or has_branch(directory, _present_name(directory, tree.branch)):
        return []
    logged = git(directory, "log", "--walk-reflogs", "--format=%H", "HEAD", "--").split()
    if not logged:
        return [WorkPart(f"a deleted branch, {folded(tree.branch, 200)}, of whose commits there is no log")]
    others = other_refs(tree, leaving)
    lost = git(directory, "rev-list", *dict.fromkeys(logged), "--not", *others, "--").split()
    return [WorkPart(f"{plural(len(lost), 'commit')} of a deleted branch", lost)] if lost else []


def _present_name(directory: str, branch: str) -> str:
    """The name of a branch after `git branch -m`, as the log of the worktree has it."""
    if has_branch(directory, branch):
        return branch
    messages = git(directory, "log", "--walk-reflogs", "--format=%gs", "HEAD", "--").split("\n")
    for message in reversed(messages):
        match = _RENAMED.fullmatch(message)
        branch = match[2] if match is not None and match[1] == branch else branch
    return branch
