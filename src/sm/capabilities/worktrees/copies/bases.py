"""Finds the base of a copy: how its directory was when it was copied, or last merged.

The copy is a git repository of its own, so that an agent can commit there. A ref, which no branch of the agent touches,
keeps the base, and its objects with it.
"""

import os
from contextlib import suppress

from sm.capabilities.worktrees.git.calls import git, git_paths
from sm.core.dataclass import dataclass
from sm.core.text import folded
from sm.errors import ExternalError, IllegalState
from sm.linux.repositories import UnreadableRepository, repository_at

BASE = "refs/sm/base"
MARK = "sm-copy"
"""A file in the git directory of a copy."""
REMOVAL = "sm-removal"
"""A file in the git directory of a copy whose removal has begun."""
ATTRIBUTES = "* -text -filter -ident -working-tree-encoding\n"
"""Git compares the bytes of files: the base is how the directory was, and a merge writes there what the agent wrote."""
REGULAR, EXECUTABLE, LINK, REPOSITORY = "100644", "100755", "120000", "160000"
"""Modes of entries, as git has them."""


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A file or a symbolic link at a path. `oid`: the name of the object with its content, as git names it."""

    mode: str
    oid: str

    @property
    def is_file(self) -> bool:
        return self.mode in (REGULAR, EXECUTABLE)


@dataclass(frozen=True, slots=True)
class Change:
    """A path that an agent has changed: how it was in the base, and how it is in the copy. None for no file."""

    path: str
    before: TreeEntry | None
    after: TreeEntry | None


def copy_base(path: str, start: str | None) -> str:
    """The commit of the base. `start`: that of the first one.

    Raises IllegalState if the copy has no git directory of its own any more, or not the base.
    """
    refuse_other_repository(path)
    for name in (BASE, start):
        with suppress(ExternalError):
            if name:
                return git(path, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    raise IllegalState(
        f"the git directory of {folded(path, 4096)} has been replaced: sm cannot tell what has changed since it was "
        "copied",
        "compare it yourself: diff -r",
    )


def refuse_other_repository(path: str) -> None:
    """Raise IllegalState unless the copy has a git directory of its own."""
    found = None
    with suppress(UnreadableRepository, OSError):
        found = repository_at(path)
    if found is None or found.common != f"{path}/.git" or os.path.realpath(path) != path:
        raise IllegalState(
            f"{folded(path, 4096)} has no git directory of its own any more: sm cannot tell what has changed since it "
            "was copied",
            "compare it yourself: diff -r",
        )


def changes_between(path: str, base: str, tree: str) -> list[Change]:
    """The differences between two states that the repository of the copy has, by path. Raises ExternalError."""
    words = iter(
        git_paths(
            path, "diff-tree", "-r", "-z", "--no-renames", "--no-abbrev", f"{base}^{{tree}}", tree, "--"
        )
    )
    found = []
    for facts in words:
        before_mode, after_mode, before, after, _ = facts.removeprefix(":").split(" ")
        found.append(Change(next(words), _entry(before_mode, before), _entry(after_mode, after)))
    return found


def _entry(mode: str, oid: str) -> TreeEntry | None:
    return None if mode == "000000" else TreeEntry(mode, oid)
