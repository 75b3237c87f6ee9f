"""Looks at the submodules of a worktree, and finds commits in them that exist nowhere else.

A new worktree has its submodules empty. Once they are filled, their git directories belong to the worktree and are
deleted with it. In a submodule, git only lists commits, and fetches nothing.
"""

import os
import shlex
from collections.abc import Iterator
from contextlib import suppress

from sm.capabilities.worktrees.git.calls import common_of, git, git_paths
from sm.capabilities.worktrees.git.git_config import parse_git_config
from sm.capabilities.worktrees.git.hidden_changes import hidden_changes
from sm.core.dataclass import dataclass
from sm.core.lines import plural
from sm.core.text import folded
from sm.errors import ExternalError, IllegalState
from sm.paths import is_within

LINK = "160000 "
"""The mode of a submodule in a tree and in an index."""
_SHOWN_MAX = 5
DEPTH_MAX = 5
_GITFILE_MAX = 8192
OFFLINE = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}


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
    return list(links_in_index(top))


def links_in_index(top: str) -> dict[str, str]:
    """The submodules in the index of the worktree `top`, with their commits. Raises ExternalError."""
    listed = git_paths(top, "ls-files", "--stage", "-z", beginning=LINK.encode())
    return {path: facts.split(" ")[1] for facts, _, path in (entry.partition("\t") for entry in listed)}


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
        if depth > DEPTH_MAX:
            yield OnlyCopy(shown, None, "it is nested too deeply to look into it")
            continue
        try:
            unpublished = _commits(directory, "--not", "--remotes")
            kept = _kept(top, main, common, path, depth) if unpublished else None
            known = set(_commits(kept)) if kept is not None else ()
            lost = [commit for commit in unpublished if commit not in known]
            if lost:
                show = ("log", "--max-count=1", "--format=%h %s", lost[0], "--")
                yield OnlyCopy(shown, len(lost), folded(git(directory, *show, variables=OFFLINE), 100))
        except (ExternalError, IllegalState) as error:
            yield OnlyCopy(shown, None, f"git cannot list its commits: {error.message}")
            continue
        yield from _only_copies(directory, os.path.join(main, path), common, shown, depth + 1)


def _commits(directory: str, *excluded: str) -> list[str]:
    """The commits of all branches, tags and the stash, the newest first. Raises ExternalError."""
    return git(directory, "rev-list", "--all", *excluded, variables=OFFLINE).split()


def _kept(top: str, main: str, common: str, path: str, depth: int) -> str | None:
    """The directory of the repository that keeps commits of a submodule without the worktree, or None without one."""
    inside = os.path.join(main, path)
    if has_own_repository(inside, common):
        return inside
    return module_directory(common, top, path, "HEAD") if depth == 1 else None


def module_directory(common: str, directory: str, path: str, ref: str) -> str | None:
    """The git directory that the repository has of a submodule, also if the submodule is checked out nowhere.

    `common`: the git directory of the repository. `ref`: a commit in `directory` whose `.gitmodules` names it.
    """
    with suppress(ExternalError, IllegalState, ValueError):
        for setting in parse_git_config(git(directory, "cat-file", "blob", f"{ref}:.gitmodules").encode()):
            if (setting.section, setting.name, setting.value) == ("submodule", "path", path):
                place = f"{common}/modules/{setting.subsection}"
                is_there = os.path.realpath(place) == place and os.path.lexists(f"{place}/HEAD")
                return place if is_there else None
    return None


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
        if depth > DEPTH_MAX or git(directory, *status, variables=OFFLINE) or hidden_changes(directory):
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
