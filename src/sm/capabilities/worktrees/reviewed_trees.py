"""Takes the present state of a session's work as a tree object of git, for `sm review`, and keeps what was reviewed.

A ref keeps a tree, not a commit: it has no author, no log shows it, and it keeps no branch from being deleted.
"""

import os
from collections.abc import Iterable
from contextlib import suppress

from sm.capabilities.worktrees.git.calls import git, git_text, is_sandboxed, repository_around
from sm.capabilities.worktrees.git.present_files import DIFF, tree_of_files
from sm.capabilities.worktrees.work import Work
from sm.client.http import Client
from sm.errors import ExternalError, IllegalState
from sm.linux.files import read_file
from sm.linux.repositories import Repository, has_commit

REFS = "refs/sm/reviews"
"""The refs of reviewed trees, by the id of the session."""
_DIFF_MAX = 64 << 20
_PACKED_MAX = 64 << 20
_PREFIXES = ("--no-color", "--src-prefix=a/", "--dst-prefix=b/")


def present_tree(work: Work) -> str:
    """Write the present state of the work, as `sm diff` sees it, as a tree object. Returns its name.

    No ref of the repository changes, nor its index. Raises ExternalError.
    """
    return tree_of_files(work.top)


def head_of(work: Work) -> str:
    """The commit that is checked out, or an empty text."""
    return git(work.top, "rev-parse", "--verify", "HEAD") if has_commit(repository_around(work.top)) else ""


def difference(work: Work, base: str, tree: str) -> str:
    """The output of `git diff` between two states, with the prefixes `a/` and `b/`. Raises IllegalState."""
    diff = git_text(work.top, *DIFF, *_PREFIXES, base, tree, "--")
    if len(diff) > _DIFF_MAX:
        raise IllegalState(
            f"the changes have {len(diff) >> 20} MiB, which is too much for an editor",
            "look at them: sm diff",
        )
    return diff


def is_kept(work: Work, tree: str) -> bool:
    """True if the repository has the tree object."""
    try:
        return git(work.top, "cat-file", "-t", tree) == "tree"
    except ExternalError:
        return False


def keep_tree(work: Work, tree: str) -> None:
    """Keep a tree object until the session is removed."""
    git(work.top, "update-ref", f"{REFS}/{work.session['session_id']}/{tree}", tree)


def forget_trees(client: Client, session_id: str, directories: Iterable[str]) -> None:
    """Delete the refs of a removed session in the first of the directories that has a repository.

    Leaves them where git cannot run, or a sandboxed session could have written: they keep nothing but old files.
    """
    for directory in filter(os.path.isdir, directories):
        with suppress(ExternalError, IllegalState):
            repository = repository_around(directory)
            if _may_have(repository, session_id) and not is_sandboxed(client, {directory}):
                listed = git(directory, "for-each-ref", "--format=%(refname)", f"{REFS}/{session_id}/")
                for ref in listed.split():
                    git(directory, "update-ref", "-d", ref)
                return


def _may_have(repository: Repository, session_id: str) -> bool:
    """False if the repository surely has no ref of the session. Runs no git, which takes time."""
    if os.path.isdir(f"{repository.common}/{REFS}/{session_id}"):
        return True
    if os.path.isdir(f"{repository.common}/reftable"):
        return True
    with suppress(OSError):
        packed = read_file(f"{repository.common}/packed-refs", _PACKED_MAX)
        return packed.cut or f"{REFS}/{session_id}/".encode() in packed.data
    return False
