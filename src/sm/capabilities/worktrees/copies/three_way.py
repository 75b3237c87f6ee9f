"""Decides how the changes of a copy come into its directory, which may have changed since too. Pure.

Each path is compared in three states: base, directory, copy. One conflict refuses all.
"""

from collections.abc import Callable, Collection, Iterator, Sequence

from sm.capabilities.worktrees.copies.bases import REPOSITORY, Change, TreeEntry
from sm.capabilities.worktrees.rules import PLACE
from sm.core.dataclass import dataclass

VERSION_CONTROL = frozenset({".git", ".hg", ".jj", ".svn", ".bzr", ".pijul", "_darcs"})
"""Directories of version control. A merge of single files would break them."""


@dataclass(frozen=True, slots=True)
class PathObstacle:
    """A path cannot exist: `at`, above it, is no directory."""

    at: str
    is_link: bool


@dataclass(frozen=True, slots=True)
class Subdirectory:
    """A directory at a path, with the paths of all files in it."""

    files: Collection[str]


Found = TreeEntry | PathObstacle | Subdirectory | None
Look = Callable[[str], Found]
"""Finds what is at a path of the directory, without following a link."""
Combine = Callable[[str, TreeEntry | None, TreeEntry, TreeEntry], str | None]
"""Merges the contents of a path in base, directory and copy. Returns the name of the object; None for a conflict.

The base has none of a file that both have added.
"""


@dataclass(frozen=True, slots=True)
class MergeStep:
    """One path of the directory to change: `before` is how it is now, `after` how it will be. None for no file."""

    path: str
    before: TreeEntry | None
    after: TreeEntry | None


@dataclass(frozen=True, slots=True)
class PathConflict:
    path: str
    why: str


@dataclass(frozen=True, slots=True)
class MergePlan:
    """`steps`: in the order in which they can be done. Empty if there are conflicts."""

    steps: Sequence[MergeStep]
    conflicts: Sequence[PathConflict]


def plan_merge(changes: Sequence[Change], look: Look, combine: Combine) -> MergePlan:
    """Plan the merge of all changes. Changes nothing."""
    gone = {change.path for change in changes if change.after is None}
    steps, conflicts = list[MergeStep](), list[PathConflict]()
    for change in changes:
        outcome = _outcome(change, look, combine, gone)
        if isinstance(outcome, str):
            conflicts.append(PathConflict(change.path, outcome))
        elif outcome is not None:
            steps.append(outcome)
    return MergePlan([] if conflicts else [*_ordered(steps)], conflicts)


def is_possible(path: str) -> bool:
    """True for a path at which a merge may write: not outside of the directory, nor in one of version control or sm."""
    parts = path.split("/")
    return (
        not any(part in ("", ".", "..") or part.casefold() in VERSION_CONTROL for part in parts)
        and "\0" not in path
        and not f"{path}/".startswith(f"{PLACE}/")
    )


def _outcome(change: Change, look: Look, combine: Combine, gone: Collection[str]) -> MergeStep | str | None:
    """Decide on one path: a step, the reason of a conflict, or None if there is nothing to do."""
    before, after = change.before, change.after
    if not is_possible(change.path):
        return "it is in a directory of version control or of sm"
    if REPOSITORY in (before and before.mode, after and after.mode):
        return "it is a git repository of its own"
    found = _explained(look(change.path), gone)
    match found:
        case PathObstacle(at, is_link):
            if after is None:
                return None
            return f"{at} is a link in the directory" if is_link else f"{at} is a file in the directory"
        case Subdirectory(files):
            if after is None:
                return None
            names = sorted(files)
            return f"it is a directory with {names[0]} in the directory"
        case _:
            return _three_way(change, found, combine)


def _explained(found: Found, gone: Collection[str]) -> Found:
    """Leave out what the merge deletes: the files that the copy does not have any more."""
    if isinstance(found, PathObstacle) and found.at in gone:
        return None
    if isinstance(found, Subdirectory):
        left = [path for path in found.files if path not in gone]
        return Subdirectory(left) if left else None
    return found


def _three_way(change: Change, ours: TreeEntry | None, combine: Combine) -> MergeStep | str | None:
    before, after = change.before, change.after
    if ours == after:
        return None
    if ours == before:
        return MergeStep(change.path, ours, after)
    if before is None:
        return _added(change.path, ours, after, combine)
    if ours is None:
        return "the directory has deleted it, and the copy has changed it"
    if after is None:
        return "the directory has changed it, and the copy has deleted it"
    if not (before.is_file and ours.is_file and after.is_file):
        return "both have changed it"
    mode = after.mode if ours.mode == before.mode else ours.mode
    oid = _content(change.path, before, ours, after, combine)
    if oid is None:
        return "both have changed it"
    outcome = TreeEntry(mode, oid)
    return None if outcome == ours else MergeStep(change.path, ours, outcome)


def _added(
    path: str, ours: TreeEntry | None, after: TreeEntry | None, combine: Combine
) -> MergeStep | str | None:
    if ours is not None and after is not None and ours.is_file and after.is_file and ours.mode == after.mode:
        oid = after.oid if ours.oid == after.oid else combine(path, None, ours, after)
        if oid is not None:
            return MergeStep(path, ours, TreeEntry(after.mode, oid))
    return "both have added it"


def _content(path: str, before: TreeEntry, ours: TreeEntry, after: TreeEntry, combine: Combine) -> str | None:
    if ours.oid in (before.oid, after.oid):
        return after.oid
    return ours.oid if after.oid == before.oid else combine(path, before, ours, after)


def _ordered(steps: Sequence[MergeStep]) -> Iterator[MergeStep]:
    """Deletions first, so that a file can take the place of a directory, and a directory that of a file."""
    yield from (step for step in sorted(steps, key=lambda s: s.path, reverse=True) if step.after is None)
    yield from (step for step in sorted(steps, key=lambda s: s.path) if step.after is not None)
