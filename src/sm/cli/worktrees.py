"""Makes a worktree for `sm spawn --worktree`, and asks a person about the work that a removal would delete."""

import os
import sys
from collections.abc import Mapping

from sm.capabilities.worktrees.git.submodules import empty_submodules_warning
from sm.capabilities.worktrees.trees import Worktree, clean, make
from sm.capabilities.worktrees.unsaved_work import UnsavedWork, unsaved_work_of
from sm.cli.display.errors import print_warnings
from sm.cli.options import absolute, current_directory
from sm.cli.selection import agrees
from sm.client.http import Client, session_path, workspace_path
from sm.core.session_lines import name_to_type
from sm.core.text import folded
from sm.errors import IllegalState, InvalidPath, NotPermitted

__all__ = ["UnsavedWork", "Worktree", "check_discard", "clean", "new_worktree", "unsaved_work_of"]


def new_worktree(
    client: Client, working_dir: str | None, settings: Mapping[str, str | None], session_id: str | None
) -> Worktree:
    """Make the worktree of a new session. `settings`: the options of `sm spawn`. Raises as `make`, and InvalidPath."""
    directory = _directory_of(client, working_dir, settings["parent"], settings["workspace"], session_id)
    name = settings["name"]
    tree = make(client, directory, os.urandom(4).hex() if name is None else name.lower())
    if (warning := empty_submodules_warning(tree.path)) is not None:
        print_warnings([warning])
    return tree


def check_discard(work: UnsavedWork, *, by_session: bool, yes: bool) -> None:
    """Ask a person at a terminal whether `--discard` may delete the work. Raises IllegalState and NotPermitted."""
    if by_session:
        raise NotPermitted(f"only the operator may delete {work}", "ask the operator")
    if work.unknown is not None or yes:  # the worktree that sm cannot look into stays
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise IllegalState(
            f"--discard would delete {work}",
            f"to delete it: sm rm {name_to_type(work.session)} --discard --yes",
        )
    if not agrees(f"Delete {work}?"):
        raise IllegalState("cancelled")


def _directory_of(
    client: Client, working_dir: str | None, parent: str | None, workspace: str | None, session_id: str | None
) -> str:
    """Find the working directory that the daemon would choose for these options. Raises InvalidPath."""
    if working_dir is not None:
        directory = absolute(working_dir)
    elif parent is not None:
        directory = str(client.get(session_path(parent))["working_dir"])
    elif session_id is not None:
        directory = str(client.get("/v1/me")["working_dir"])
    elif workspace is not None and workspace != "-":
        directory = str(client.get(workspace_path(workspace))["working_dir"])
    else:
        directory = current_directory()
    if not os.path.isdir(directory):
        raise InvalidPath(f"working directory {folded(directory, 200)} does not exist")
    return directory
