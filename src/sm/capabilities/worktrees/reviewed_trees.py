"""Takes the present state of a session's work as a tree object of git, for `sm review`, and keeps what was reviewed.

A ref keeps a tree, not a commit: it has no author, no log shows it, and it keeps no branch from being deleted.
"""

import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from sm.capabilities.worktrees.git import review_refs
from sm.capabilities.worktrees.git.calls import git, git_paths, git_text, repository_around
from sm.capabilities.worktrees.git.present_files import DIFF, tree_of_files
from sm.capabilities.worktrees.git.scratch import INDEX, scratch_directory
from sm.capabilities.worktrees.work import Work, refuse_sandboxed
from sm.core.dataclass import dataclass
from sm.errors import ExternalError, IllegalState
from sm.linux.repositories import has_commit

FILE_MAX = 32 << 20
"""The bytes of a file that is reviewed. A larger one is no text that a person reads."""
_DIFF_MAX = 64 << 20
_PREFIXES = ("--no-color", "--src-prefix=a/", "--dst-prefix=b/")


def present_tree(work: Work, objects: Mapping[str, str] | None = None, left_out: Collection[str] = ()) -> str:
    """Write the present state of the work, as `sm diff` sees it, as a tree object. Returns its name.

    `objects`: the variables of another place for new objects than the repository. `left_out`: files that stay as they
    are in the index. No ref of the repository changes, nor its index. Raises ExternalError.
    """
    return tree_of_files(work.top, objects, left_out)


@dataclass(frozen=True, slots=True)
class PresentState:
    """The present state of a work, as a tree object outside of the repository."""

    work: Work
    tree: str
    head: str
    """The commit that was checked out, or empty."""
    left_out: Sequence[str]
    """Changed files that are too large, which the tree has as they are in the index."""
    _directory: str
    _objects: Mapping[str, str]

    def difference(self, base: str) -> str:
        """The output of `git diff` from another state, as `difference`."""
        return difference(self.work, base, self.tree, self._objects)

    def keep(self) -> None:
        """Copy the tree into the repository, and keep it until the session is removed. Raises SmError."""
        top = self.work.top
        # A person may have commented for hours.
        refuse_sandboxed(self.work.client, self.work.session, {top})
        packing = ("pack-objects", "--quiet", "--revs", "--local", "--non-empty", f"{self._directory}/pack")
        name = git(top, *packing, variables=self._objects, text=f"{self.tree}\n".encode())
        if name:  # otherwise the repository has all of it
            with open(f"{self._directory}/pack-{name}.pack", "rb") as pack:
                git(top, "unpack-objects", "-q", file=pack)
        keep_tree(self.work, self.tree)


@contextmanager
def present_state(work: Work) -> Iterator[PresentState]:
    """Take the present state of the work. The repository gets no object of it before it is kept."""
    with scratch_directory(INDEX) as directory:
        os.makedirs(f"{directory}/objects/pack")
        # A path without characters that have a meaning in a variable.
        os.symlink(os.path.realpath(f"{work.common}/objects"), f"{directory}/place")
        objects = {
            "GIT_OBJECT_DIRECTORY": f"{directory}/objects",
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": f"{directory}/place",
        }
        head, left_out = head_of(work), _large_files(work)
        tree = present_tree(work, objects, frozenset(left_out))
        yield PresentState(work, tree, head, left_out, directory, objects)


def _large_files(work: Work) -> list[str]:
    with work.index() as variables:
        changed = git_paths(work.top, *DIFF, "--no-renames", "--name-only", "-z", "--", variables=variables)
    return [path for path in dict.fromkeys(changed) if _size(f"{work.top}/{path}") > FILE_MAX]


def _size(path: str) -> int:
    """The bytes of a regular file; 0 for anything else."""
    try:
        status = os.lstat(path)
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def head_of(work: Work) -> str:
    """The commit that is checked out, or an empty text."""
    return git(work.top, "rev-parse", "--verify", "HEAD") if has_commit(repository_around(work.top)) else ""


def difference(work: Work, base: str, tree: str, objects: Mapping[str, str] | None = None) -> str:
    """The output of `git diff` between two states, with the prefixes `a/` and `b/`. Raises IllegalState."""
    diff = git_text(work.top, *DIFF, *_PREFIXES, base, tree, "--", variables=objects)
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
    review_refs.keep_tree(work.top, work.session["session_id"], tree)
