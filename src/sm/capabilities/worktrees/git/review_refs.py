"""The refs that keep what a person has reviewed of a session's work: `refs/sm/reviews/SESSION/TREE`."""

import os

from sm.capabilities.worktrees.git.calls import git
from sm.linux.files import read_file
from sm.linux.repositories import UnreadableRepository, find_repository

_REFS = "refs/sm/reviews"
_PACKED_MAX = 64 << 20


def keep_tree(top: str, session_id: str, tree: str) -> None:
    """Keep a tree object until the session is removed."""
    git(top, "update-ref", f"{_REFS}/{session_id}/{tree}", tree)


def forget_trees(directory: str, session_id: str) -> None:
    """Delete the refs of a session in the repository around a directory. Raises ExternalError."""
    for ref in git(directory, "for-each-ref", "--format=%(refname)", f"{_REFS}/{session_id}/").split():
        git(directory, "update-ref", "-d", ref)


def may_have_trees(directory: str, session_id: str) -> bool:
    """False if the repository around a directory surely has no ref of the session. Runs no git. Blocks."""
    if not os.path.isdir(directory):  # deleted, with its repository
        return False
    try:
        repository = find_repository(directory)
        if repository is None:
            return False
        if os.path.isdir(f"{repository.common}/{_REFS}/{session_id}"):
            return True
        if os.path.isdir(f"{repository.common}/reftable"):
            return True
        packed = read_file(f"{repository.common}/packed-refs", _PACKED_MAX)
    except FileNotFoundError:  # nothing is packed
        return False
    except (UnreadableRepository, OSError):  # git says why
        return True
    return packed.cut or f"{_REFS}/{session_id}/".encode() in packed.data
