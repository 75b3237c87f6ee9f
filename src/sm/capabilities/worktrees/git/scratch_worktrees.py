"""Makes worktrees in temporary directories, and removes the temporary directories that killed commands have left."""

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sm.capabilities.worktrees.git.calls import git
from sm.capabilities.worktrees.git.linked import add_linked, forget_linked, remove_linked
from sm.capabilities.worktrees.git.scratch import MERGE, left_directories, scratch_directory
from sm.errors import ExternalError, IllegalState

log = logging.getLogger(__name__)
_FILES = "files"
"""The worktree, below its temporary directory."""


@contextmanager
def scratch_worktree(source: str, common: str, commit: str) -> Iterator[str]:
    """A worktree at a commit, on no branch, which is removed afterwards. Raises ExternalError.

    `source`: a worktree of the repository whose git directory is `common`.
    """
    remove_left_directories()
    with scratch_directory(MERGE, common) as directory:
        top = os.path.realpath(f"{directory}/{_FILES}")
        try:
            add_linked(source, common, top, "--detach", top, commit)
            git(top, "reset", "--quiet", "--hard")
            yield top
        finally:
            with suppress(ExternalError, IllegalState):
                remove_linked(top)


def remove_left_directories() -> None:
    """Remove those of this user that no process uses. Raises nothing: another command may try again."""
    try:
        for left in left_directories():
            shutil.rmtree(left.path, ignore_errors=True)
            if left.worktree_of:
                forget_linked(left.worktree_of, os.path.realpath(f"{left.path}/{_FILES}"))
    except OSError as error:
        log.warning("cannot look for temporary directories: %s", error)
