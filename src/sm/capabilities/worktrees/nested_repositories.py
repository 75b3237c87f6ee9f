"""Finds git repositories inside of a worktree that are no submodules, also in directories that git ignores."""

import os
from collections.abc import Collection, Iterator

from sm.capabilities.worktrees.git.calls import git, git_paths
from sm.capabilities.worktrees.git.fetched_commits import fetched_commits
from sm.capabilities.worktrees.git.hidden_changes import hidden_changes
from sm.capabilities.worktrees.git.submodules import submodules
from sm.core.lines import plural
from sm.core.text import folded
from sm.errors import ExternalError, IllegalState
from sm.linux.repositories import UnreadableRepository, repository_at

_FOUND_MAX = 200
_DIRECTORIES_MAX = 200_000


def nested_work(top: str, own_submodules: Collection[str]) -> Iterator[str]:
    """Describe the nested repositories whose work exists nowhere else, as far as they say.

    One that cannot be asked counts as such work. Raises ExternalError if there are too many directories to look at.
    """
    for directory in _nested(top, own_submodules):
        shown = folded(os.path.relpath(directory, top), 200)
        try:
            is_bare = not os.path.lexists(f"{directory}/.git")
            files = [] if is_bare else _changed_files(directory)
            commits = _own_commits(directory, top)
        except (ExternalError, IllegalState) as error:
            yield f"the repository {shown}, of which git cannot say what is in it: {error.message}"
            continue
        if files or commits:
            parts = [plural(len(files), "changed file")] if files else []
            parts += [f"{plural(len(commits), 'commit')} in no remote branch"] if commits else []
            yield f"the repository {shown} with {' and '.join(parts)}"


def _own_commits(directory: str, top: str) -> list[str]:
    """The commits that no remote has, as far as the repository says. The stash and a detached HEAD count too."""
    commits = git(directory, "rev-list", "--all", "--not", "--remotes").split()
    if not commits or not (fetched := fetched_commits(directory, top)):
        return commits
    text = "".join(f"^{name}\n" for name in fetched).encode()
    return git(directory, "rev-list", "--stdin", "--all", "--not", "--remotes", text=text).split()


def _changed_files(directory: str) -> list[str]:
    return git_paths(directory, "status", "--porcelain", "-z") or hidden_changes(directory)


def _nested(top: str, own_submodules: Collection[str]) -> Iterator[str]:
    known = {os.path.join(top, path) for path in own_submodules}
    found = 0
    for seen, (directory, names, files) in enumerate(os.walk(top)):
        if seen > _DIRECTORIES_MAX or found > _FOUND_MAX:
            raise ExternalError(f"{folded(top, 4096)} has too many directories to look into")
        if directory != top and (".git" in names or ".git" in files):
            names[:] = [name for name in names if name != ".git"]
            if directory in known:
                known.update(os.path.join(directory, path) for path in _submodules(directory))
            elif not _is_linked(directory, top):
                found += 1
                yield directory
        elif directory != top and {"objects", "refs"} <= set(names) and "HEAD" in files:  # a bare one
            names.clear()
            found += 1
            yield directory
        elif ".git" in names:
            names.remove(".git")


def _submodules(directory: str) -> list[str]:
    """The submodules of a submodule. None for one in which git does not run, and which is reported for that."""
    try:
        return submodules(directory)
    except (ExternalError, IllegalState):
        return []


def _is_linked(directory: str, top: str) -> bool:
    """True for another worktree of the repository, which is not removed with this one."""
    try:
        inner, outer = repository_at(os.path.realpath(directory)), repository_at(top)
    except UnreadableRepository:
        return False
    if inner is None or outer is None or inner.common != outer.common:
        return False
    try:  # one that was moved here by hand is not known here, and would be lost
        with open(f"{inner.own}/gitdir", encoding="utf-8", errors="surrogateescape") as file:
            return file.read().strip() == f"{os.path.realpath(directory)}/.git"
    except OSError:
        return False
