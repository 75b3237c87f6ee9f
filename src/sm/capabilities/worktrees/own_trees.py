"""Finds what the daemon knows of the worktree of a session, for the commands that look at it, merge it or remove it."""

from collections.abc import Mapping, Sequence
from typing import Any

from sm.capabilities.worktrees.rules import is_copy, repository_of
from sm.client.http import Client
from sm.core.dataclass import dataclass
from sm.core.lines import JsonObject
from sm.errors import NotFound


@dataclass(frozen=True, slots=True)
class OwnTree:
    """A worktree of a session."""

    path: str
    branch: str
    repository: str | None
    """The main directory of its repository, or None if sm did not make the worktree."""
    start: str | None = None
    """The commit that it began with, empty for none. None for one that an earlier version of sm has made."""
    git_directory: str | None = None
    """The git directory of the repository, as the daemon knows it. None for one that an earlier version has made."""
    is_new_branch: bool = True
    """False if the branch was there before the worktree, and stays after it."""
    teardown: Sequence[str] = ()
    """Commands to run before it is removed."""
    teardown_within_s: float = 0.0

    @property
    def is_copy(self) -> bool:
        """True for a copy of the directory `repository`, which has no git: it has a git directory of its own."""
        return is_copy(self.path, self.git_directory)


def tree_of_session(client: Client, session: JsonObject) -> OwnTree | None:
    """The worktree of a session, or None if it has none."""
    if session["worktree"] is None:
        return None
    path, branch = str(session["worktree"]["path"]), str(session["worktree"]["branch"])
    try:
        known = client.get("/v1/worktrees", {"session": session["session_id"]})
    except NotFound:  # the session is gone, or this is a socket of sandboxed agents
        known = []
    for tree in known:
        if tree["path"] == path:
            return known_tree(tree)
    return OwnTree(path, branch, repository_of(path, branch))


def known_tree(tree: JsonObject) -> OwnTree:
    """A worktree in the daemon's list of them."""
    return OwnTree(
        tree["path"],
        tree["branch"],
        tree["repository"],
        tree["start"],
        tree["git_directory"],
        tree["is_new_branch"],
        tree.get("teardown", ()),
        tree.get("teardown_within_s", 0.0),
    )


def tree_of_removal(answer: Mapping[str, Any]) -> OwnTree:
    """The worktree in the daemon's answer to the removal of a session. An older daemon says less."""
    path, branch = str(answer["worktree"]["path"]), str(answer["worktree"]["branch"])
    repository = answer.get("repository") or repository_of(path, branch)
    return OwnTree(
        path,
        branch,
        repository,
        answer.get("start"),
        git_directory=answer.get("git_directory"),
        is_new_branch=not answer.get("keeps_branch", False),
        teardown=answer.get("teardown", ()),
        teardown_within_s=answer.get("teardown_within_s", 0.0),
    )
