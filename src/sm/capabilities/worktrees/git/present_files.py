"""Takes the present files of a repository as git sees them: the index with the new files, and a tree object."""

import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress

from sm.capabilities.worktrees.git.calls import git, git_paths, repository_around
from sm.capabilities.worktrees.git.scratch import INDEX, scratch_directory
from sm.linux.repositories import UnreadableRepository, has_commit, repository_at

DIFF = ("diff", "--no-ext-diff", "--no-textconv")


@contextmanager
def index_of_files(top: str) -> Iterator[dict[str, str]]:
    """A copy of the index that also lists the new files, as variables for git."""
    with scratch_directory(INDEX) as directory:
        copy, new = f"{directory}/index", f"{directory}/new"
        with suppress(FileNotFoundError):
            # With its time: git finds a change within the same clock tick only in an index that is not newer.
            shutil.copy2(f"{repository_around(top).own}/index", copy)
        variables = {"GIT_INDEX_FILE": copy}
        # By name: with a directory git would look into every submodule, by its configuration.
        if paths := _new_files(top):
            with open(new, "wb") as file:
                file.write(b"".join(os.fsencode(path) + b"\0" for path in paths))
            options = ("--intent-to-add", "--pathspec-file-nul", f"--pathspec-from-file={new}")
            git(top, "--literal-pathspecs", "add", *options, variables=variables)
        yield variables


def tree_of_files(top: str, objects: Mapping[str, str] | None = None, left_out: Collection[str] = ()) -> str:
    """Write the present files as a tree object. Returns its name.

    `objects`: the variables of another place for new objects than the repository. `left_out`: files that stay as they
    are in the index. No ref of the repository changes, nor its index. Raises ExternalError.
    """
    with index_of_files(top) as variables:
        changed = git_paths(top, *DIFF, "--no-renames", "--name-only", "-z", "--", variables=variables)
        # By name: git would look into every submodule, by its configuration.
        names = b"".join(
            os.fsencode(path.rstrip("/")) + b"\0" for path in dict.fromkeys(changed) if path not in left_out
        )
        variables |= objects or {}
        options = ("--add", "--remove", "-z", "--stdin")
        git(top, "update-index", *options, variables=variables, text=names)
        return git(top, "write-tree", "--missing-ok", variables=variables)


def _new_files(top: str) -> list[str]:
    """The new files, without repositories that have no commit: git would then add nothing at all."""
    listed = git_paths(top, "ls-files", "--others", "--exclude-standard", "-z")
    return [path for path in listed if (not path.endswith("/") or _has_commit(f"{top}/{path}"))]


def _has_commit(directory: str) -> bool:
    try:
        found = repository_at(os.path.realpath(directory))
    except UnreadableRepository:
        return False
    return found is not None and has_commit(found)
