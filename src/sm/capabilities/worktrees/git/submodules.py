"""Looks at the submodules of a worktree, and finds commits in them that exist nowhere else.

A new worktree has its submodules empty. Once they are filled, their git directories belong to the worktree and are
deleted with it. In a submodule, git only lists commits, and fetches nothing.
"""

import os
import shlex
from collections.abc import Iterator

from sm.capabilities.worktrees.git.calls import common_of, git
from sm.capabilities.worktrees.git.hidden_changes import hidden_changes
from sm.core.dataclass import dataclass
from sm.core.lines import plural
from sm.core.text import folded
from sm.errors import ExternalError, IllegalState
from sm.paths import is_within

_LINK = "160000 "
"""The mode of a submodule in a tree and in an index."""
_SHOWN_MAX = 5
_DEPTH_MAX = 5
_GITFILE_MAX = 8192
_OFFLINE = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}


@dataclass(frozen=True, slots=True)
class OnlyCopy:
    """Commits of the submodule at `path` (below the worktree) that exist nowhere else.

    `newest`: one of them, in one line. `commits`: how many, or None if git cannot say, so that each may be one.
    """

    path: str
    commits: int | None
    newest: str = ""

    def __str__(self) -> str:
        if self.commits is None:
            return f"submodule {folded(self.path, 200)}: {self.newest}"
        more = f" and {self.commits - 1} more" if self.commits > 1 else ""
        return f"submodule {folded(self.path, 200)}: {self.newest}{more}"


def submodules(top: str) -> list[str]:
    """The paths of the submodules in the index of the worktree `top`. Raises ExternalError."""
    listed = git(top, "ls-files", "--stage", "-z").split("\0")
    return [entry.partition("\t")[2] for entry in listed if entry.startswith(_LINK)]


def empty_submodules_warning(top: str) -> str | None:
    """Say that the submodules of a new worktree are empty, or return None if there are none or git cannot say."""
    try:
        paths = [path for path in submodules(top) if not os.path.lexists(os.path.join(top, path, ".git"))]
    except (ExternalError, IllegalState):
        return None
    if not paths:
        return None
    more = f" and {len(paths) - _SHOWN_MAX} more" if len(paths) > _SHOWN_MAX else ""
    names = ", ".join(folded(path, 200) for path in paths[:_SHOWN_MAX]) + more
    verb = "is" if len(paths) == 1 else "are"
    return (
        f"{plural(len(paths), 'submodule')} {verb} empty in the new worktree: {names}; "
        f"to fill: git -C {shlex.quote(folded(top, 4096))} submodule update --init"
    )


def refuse_unpublished(name: str, top: str, target: str, ref: str) -> None:
    """Raise IllegalState if a merge of `ref` would point a submodule to a commit that `target` cannot get.

    `name`: the session's. `top`: its worktree. `target`: the worktree that merges.
    """
    for path, commit in changed_links(target, ref).items():
        if is_available(path, commit, top, target):
            continue
        inside = os.path.join(top, path)
        publish = f"git -C {shlex.quote(folded(inside, 4096))} push origin HEAD:refs/heads/BRANCH"
        raise IllegalState(
            f"{name} points the submodule {folded(path, 200)} to the commit {commit[:12]}, which is neither in the "
            f"submodule of {folded(target, 4096)} nor in a branch that was pushed: nobody could check it out",
            f"publish the commit first, then merge: {publish}",
        )


def changed_links(target: str, ref: str) -> dict[str, str]:
    """The submodules that a merge of `ref` changes, with their new commits."""
    return _links(target, f"HEAD...{ref}")


def links_between(target: str, before: str, after: str) -> dict[str, str]:
    """The submodules that differ between two commits, with their commits in the second one."""
    return _links(target, before, after)


def _links(target: str, *commits: str) -> dict[str, str]:
    change = ("diff", "--raw", "-z", "--no-renames", "--no-abbrev", *commits, "--")
    found: dict[str, str] = {}
    words = iter(git(target, *change).split("\0"))
    for facts in words:
        if not facts.startswith(":"):
            continue
        _, mode, _, commit, *_ = facts.removeprefix(":").split(" ")
        path = next(words, "")
        if f"{mode} " == _LINK:
            found[path] = commit
    return found


def is_available(path: str, commit: str, top: str, target: str) -> bool:
    """True if the submodule of `target` has the commit, or if a branch that was pushed or fetched contains it."""
    for directory, needs_remote in ((os.path.join(target, path), False), (os.path.join(top, path), True)):
        if not has_own_repository(directory, common_of(target)):
            continue
        try:
            if not needs_remote:
                git(directory, "cat-file", "-e", f"{commit}^{{commit}}", variables=_OFFLINE)
                return True
            contains = ("for-each-ref", "--count=1", f"--contains={commit}", "refs/remotes")
            if git(directory, *contains, variables=_OFFLINE):
                return True
        except (ExternalError, IllegalState):
            continue
    # Somebody else may have moved the submodule, in a branch that the agent has merged.
    try:
        return bool(
            git(
                target,
                "log",
                "--remotes",
                "--max-count=1",
                "--format=%H",
                f"--find-object={commit}",
                "--",
                path,
            )
        )
    except (ExternalError, IllegalState):
        return False


def only_copies(path: str, main: str | None) -> list[OnlyCopy]:
    """The commits of submodules that `sm rm` would delete with the worktree at `path`. Raises ExternalError."""
    if main is None or not os.path.isdir(path):
        return []
    return list(_only_copies(path, main, common_of(path), ""))


def _only_copies(top: str, main: str, common: str, above: str, depth: int = 1) -> Iterator[OnlyCopy]:
    for path in submodules(top):
        directory, shown = os.path.join(top, path), os.path.join(above, path)
        if not os.path.lexists(os.path.join(directory, ".git")):
            continue
        if not has_own_repository(directory, common):
            yield OnlyCopy(shown, None, "its git directory is elsewhere, so sm does not look into it")
            continue
        if depth > _DEPTH_MAX:
            yield OnlyCopy(shown, None, "it is nested too deeply to look into it")
            continue
        try:
            unpublished = _commits(directory, "--not", "--remotes")
            known = (
                set(_commits(os.path.join(main, path))) if unpublished and _is_in(main, path, common) else ()
            )
            lost = [commit for commit in unpublished if commit not in known]
            if lost:
                show = ("log", "--max-count=1", "--format=%h %s", lost[0], "--")
                yield OnlyCopy(shown, len(lost), folded(git(directory, *show, variables=_OFFLINE), 100))
        except (ExternalError, IllegalState) as error:
            yield OnlyCopy(shown, None, f"git cannot list its commits: {error.message}")
            continue
        yield from _only_copies(directory, os.path.join(main, path), common, shown, depth + 1)


def _commits(directory: str, *excluded: str) -> list[str]:
    """The commits of all branches, tags and the stash, the newest first. Raises ExternalError."""
    return git(directory, "rev-list", "--all", *excluded, variables=_OFFLINE).split()


def _is_in(main: str, path: str, common: str) -> bool:
    return has_own_repository(os.path.join(main, path), common)


def uncommitted_submodules(top: str, depth: int = 1) -> Iterator[str]:
    """The submodules of the worktree with uncommitted or untracked files. Raises ExternalError.

    Also those that are nested too deeply to look into them.
    """
    for path in submodules(top):
        directory = os.path.join(top, path)
        if not os.path.lexists(os.path.join(directory, ".git")):
            if os.path.isdir(directory) and os.listdir(directory):
                yield path
            continue
        status = ("status", "--porcelain")
        if depth > _DEPTH_MAX or git(directory, *status, variables=_OFFLINE) or hidden_changes(directory):
            yield path
            continue
        yield from (os.path.join(path, inner) for inner in uncommitted_submodules(directory, depth + 1))


def hidden_changes_warning(top: str) -> str | None:
    """Say which submodules have changes that a difference of the worktree does not show, or return None if none has."""
    try:
        paths = list(uncommitted_submodules(top))
    except (ExternalError, IllegalState):
        return None
    if not paths:
        return None
    inside = shlex.quote(folded(os.path.join(top, paths[0]), 4096))
    names = ", ".join(folded(path, 200) for path in paths[:_SHOWN_MAX])
    return f"uncommitted changes inside of a submodule are not shown: {names}; to see them: git -C {inside} diff HEAD"


def has_own_repository(directory: str, common: str) -> bool:
    """True if the git directory of the submodule is in it, or in the git directory `common` of the repository.

    git would otherwise use whatever the file `.git` names.
    """
    place = os.path.join(directory, ".git")
    if os.path.realpath(directory) != os.path.normpath(directory) or os.path.islink(place):
        return False
    if os.path.isdir(place):
        return True
    try:
        with open(place, encoding="utf-8", errors="surrogateescape") as file:
            words = file.read(_GITFILE_MAX)
    except OSError:
        return False
    if not words.startswith("gitdir: "):
        return False
    named = os.path.realpath(os.path.join(directory, words.removeprefix("gitdir: ").rstrip("\n")))
    return is_within(named, common) and os.path.isdir(named)
