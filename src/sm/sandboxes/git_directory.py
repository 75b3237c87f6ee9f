"""Finds the git directory of a workspace by reading files, without running git: agents can write these files."""

import os
from contextlib import suppress

from sm.core.dataclass import dataclass
from sm.linux.files import read_file

_LINE_MAX = 4096


@dataclass(frozen=True, slots=True)
class LinkedWorktree:
    """A worktree of a repository elsewhere: `git worktree add` made it. Paths are real."""

    own: str
    """The files of this worktree in the repository: COMMON/worktrees/NAME."""
    common: str
    """The git directory of the repository."""


def linked_worktree(directory: str) -> LinkedWorktree | None:
    """The repository of a linked worktree at `directory`, a real path; None for every other directory.

    An agent can write a `.git` file that names any directory of the machine. So the repository must name the worktree
    in turn, which only its owner can make it do: COMMON/worktrees/NAME/gitdir must contain the path of that `.git`.
    """
    text = _line(f"{directory}/.git")
    if text is None or not text.startswith("gitdir: "):
        return None
    own = os.path.realpath(os.path.join(directory, text.removeprefix("gitdir: ")))
    worktrees = os.path.dirname(own)
    common = os.path.dirname(worktrees)
    back, shared = _line(f"{own}/gitdir"), _line(f"{own}/commondir")
    if os.path.basename(worktrees) != "worktrees" or back is None or shared is None:
        return None
    names_this = os.path.realpath(os.path.join(own, back)) == f"{directory}/.git"
    is_common = os.path.realpath(os.path.join(own, shared)) == common
    is_repository = os.path.isdir(f"{common}/objects") and os.path.isfile(f"{common}/HEAD")
    return LinkedWorktree(own, common) if names_this and is_common and is_repository else None


def _line(path: str) -> str | None:
    """The only line of a small file; None for a link, for a directory, and for other content."""
    with suppress(OSError, UnicodeDecodeError):
        content = read_file(path, _LINE_MAX)
        text = os.fsdecode(content.data).removesuffix("\n").removesuffix("\r")
        if not content.cut and "\n" not in text and "\0" not in text:
            return text
    return None
