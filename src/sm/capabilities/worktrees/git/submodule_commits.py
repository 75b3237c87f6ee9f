"""Finds the commits of submodules that a merge needs, and copies those that only the agent's worktree has.

git reads their objects alone, through a directory of sm's own: it runs nothing in the agent's submodule.
"""

import os
import shlex
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress

from sm.capabilities.worktrees.git.calls import common_of, git, repository_around
from sm.capabilities.worktrees.git.submodules import (
    DEPTH_MAX,
    LINK,
    OFFLINE,
    has_own_repository,
    module_directory,
)
from sm.core.dataclass import dataclass
from sm.core.text import folded
from sm.errors import ExternalError, IllegalState

MERGED = "refs/sm/merged"
"""The refs that keep the commits that were copied."""


@dataclass(frozen=True, slots=True)
class MissingCommit:
    """A commit of the submodule at `path` that exists only in the submodule `source` of the agent's worktree.

    `place`: the repository's own directory of the submodule, to which the commit can be copied.
    """

    path: str
    commit: str
    source: str
    place: str


Allowed = Callable[[str], None]
"""Returns if git may run in a directory, else raises NotPermitted."""


@dataclass(frozen=True, slots=True)
class _Level:
    """A repository with submodules: the agent's worktree `top` of it, and the one that merges.

    `target`: the directory that merges, or None if no directory has the branch. `common`: its git directory.
    `root`: the git directory below which those of all submodules are. `shown`: the path in the outermost repository.
    """

    top: str
    target: str | None
    common: str
    root: str
    allow: Allowed
    shown: str = ""


@dataclass(frozen=True, slots=True)
class _Change:
    """A submodule with another commit. `before`: the former one, all zeros for a new submodule."""

    path: str
    before: str
    commit: str


class Unavailable(IllegalState):
    """A commit of a submodule that nobody could check out after the merge."""


def missing_commits(
    top: str, target: str | None, before: str, ref: str, allow: Allowed
) -> list[MissingCommit]:
    """List the commits of submodules that a merge of `ref` needs and that have to be copied before, innermost first.

    `top`: the agent's worktree. `target`: the directory that merges, or None if the branch is checked out nowhere.
    `before`: the commit to merge into. Raises Unavailable for one that cannot be copied, and as `allow`.
    """
    common = common_of(top)
    level = _Level(top, target, common, common, allow)
    return list(_missing(level, _changes(top, f"{before}...{ref}"), ref))


def changed_links(directory: str, *commits: str) -> dict[str, str]:
    """The submodules that differ between commits, or in a range `A...B`, with their commits in the last one."""
    return {change.path: change.commit for change in _changes(directory, *commits)}


def is_available(top: str, target: str | None, path: str, commit: str, ref: str, allow: Allowed) -> bool:
    """True if the repository has the commit of a submodule, or if it is in a branch that was pushed or fetched.

    `ref`: the commit whose `.gitmodules` names the submodule. The others: as for `missing_commits`.
    """
    common = common_of(top)
    level = _Level(top, target, common, common, allow)
    return _is_available(level, _place(level, path, ref), path, commit)


def copy_commit(missing: MissingCommit) -> None:
    """Copy the objects of a commit, and keep it by a ref. Raises ExternalError and IllegalState."""
    place, commit = missing.place, missing.commit
    with tempfile.TemporaryDirectory(prefix="sm-merge-") as directory:
        os.makedirs(f"{directory}/new/pack")  # a pack is renamed to its place on the same disk
        # Paths without characters that have a meaning in a variable.
        for name, from_where in (("source", missing.source), ("place", place)):
            objects = os.path.realpath(f"{repository_around(from_where).common}/objects")
            os.symlink(objects, f"{directory}/{name}")
        both = {
            **OFFLINE,
            "GIT_OBJECT_DIRECTORY": f"{directory}/new",
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": f"{directory}/place:{directory}/source",
        }
        new = git(
            place, "rev-list", "--objects", "--no-object-names", commit, "--not", "--all", variables=both
        )
        if not new:  # another branch has kept it since
            return
        packing = ("pack-objects", "--quiet", "--delta-base-offset", f"{directory}/pack")
        name = git(place, *packing, variables=both, text=new.encode() + b"\n")
        # It computes the name of each object anew, and sees that none is missing: the agent has written them.
        with open(f"{directory}/pack-{name}.pack", "rb") as pack:
            git(place, "index-pack", "--stdin", "--strict", variables=OFFLINE, file=pack)
    git(place, "update-ref", f"{MERGED}/{commit}", commit, variables=OFFLINE)


def _missing(level: _Level, changes: list[_Change], ref: str, depth: int = 1) -> Iterator[MissingCommit]:
    """`ref`: the commit whose `.gitmodules` names the submodules."""
    for change in changes:
        path, commit = change.path, change.commit
        place = _place(level, path, ref)
        if _is_available(level, place, path, commit):
            continue
        source, shown = os.path.join(level.top, path), os.path.join(level.shown, path)
        if place is None or depth > DEPTH_MAX or not _has_commit(level, source, commit):
            raise _unavailable(level, shown, source, commit)
        inner = _Level(
            source,
            None if level.target is None else os.path.join(level.target, path),
            repository_around(place).common,
            level.root,
            level.allow,
            shown,
        )
        yield from _missing(inner, _changes_inside(source, change), commit, depth + 1)
        yield MissingCommit(shown, commit, source, place)


def _unavailable(level: _Level, shown: str, inside: str, commit: str) -> Unavailable:
    where = "the repository" if level.target is None else folded(level.target, 4096)
    publish = f"git -C {shlex.quote(folded(inside, 4096))} push origin HEAD:refs/heads/BRANCH"
    return Unavailable(
        f"the submodule {folded(shown, 200)} has the commit {commit[:12]}, which is neither in the submodule of "
        f"{where} nor in a branch that was pushed: nobody could check it out",
        f"publish the commit first, then merge: {publish}",
    )


def _changes(directory: str, *commits: str) -> list[_Change]:
    words = iter(
        git(directory, "diff", "--raw", "-z", "--no-renames", "--no-abbrev", *commits, "--").split("\0")
    )
    found = []
    for facts in words:
        if not facts.startswith(":"):
            continue
        before_mode, mode, before, commit, *_ = facts.removeprefix(":").split(" ")
        path = next(words, "")
        if f"{mode} " == LINK:
            found.append(_Change(path, before if f"{before_mode} " == LINK else "", commit))
    return found


def _changes_inside(source: str, change: _Change) -> list[_Change]:
    """The changes of the submodules of a submodule. All of them if the agent has not got the former commit."""
    if change.before:
        with suppress(ExternalError):
            return _changes(source, change.before, change.commit)
    return _changes(source, git(source, "hash-object", "-t", "tree", "/dev/null"), change.commit)


def _is_available(level: _Level, place: str | None, path: str, commit: str) -> bool:
    if place is not None and _has(place, commit):
        return True
    inside = os.path.join(level.top, path)
    with suppress(ExternalError, IllegalState):
        if has_own_repository(inside, level.root):
            level.allow(inside)
            contains = ("for-each-ref", "--count=1", f"--contains={commit}", "refs/remotes")
            if git(inside, *contains, variables=OFFLINE):
                return True
    # Somebody else may have moved the submodule, in a branch that the agent has merged.
    with suppress(ExternalError, IllegalState):
        moved = ("log", "--remotes", "--max-count=1", "--format=%H", f"--find-object={commit}")
        return bool(git(level.target or level.common, *moved, "--", path))
    return False


def _has_commit(level: _Level, source: str, commit: str) -> bool:
    if not has_own_repository(source, level.root):
        return False
    level.allow(source)
    return _has(source, commit)


def _has(directory: str, commit: str) -> bool:
    with suppress(ExternalError, IllegalState):
        git(directory, "cat-file", "-e", f"{commit}^{{commit}}", variables=OFFLINE)
        return True
    return False


def _place(level: _Level, path: str, ref: str) -> str | None:
    """The repository's own directory of a submodule: where it is checked out, else where its git directory is."""
    if level.target is not None:
        inside = os.path.join(level.target, path)
        if has_own_repository(inside, level.root):
            level.allow(inside)
            return inside
    place = module_directory(level.common, level.top, path, ref)
    if place is not None:
        level.allow(place)
    return place
