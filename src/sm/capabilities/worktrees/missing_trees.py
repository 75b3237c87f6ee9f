"""Finds the work that git keeps for a worktree whose directory is missing: somebody has deleted it or moved it.

The repository still has the HEAD, the index, the log, the submodules and the unfinished operations of the worktree,
which are deleted when it forgets the worktree.
"""

import os
from collections.abc import Iterator
from contextlib import suppress

from sm.capabilities.worktrees.deleted_branches import commits_of_deleted_branch
from sm.capabilities.worktrees.git.calls import common_of, git, git_answer, is_in_operation, repository_around
from sm.capabilities.worktrees.git.linked import missing_linked
from sm.capabilities.worktrees.git.remotes import PULL_REQUESTS
from sm.capabilities.worktrees.git.submodules import OnlyCopy
from sm.capabilities.worktrees.own_trees import OwnTree
from sm.capabilities.worktrees.work_parts import UNFINISHED, WorkPart
from sm.core.lines import plural
from sm.core.text import folded
from sm.errors import ExternalError, IllegalState
from sm.linux.files import read_file
from sm.linux.repositories import has_commit

_SUBMODULES_MAX = 1_000
_REASON_MAX = 4096


def missing_work(tree: OwnTree) -> list[WorkPart]:
    """Describe the commits and the staged changes that exist nowhere else. Raises ExternalError and IllegalState.

    Commits of the new branch alone are no such work: the branch stays then. Beside other work they are counted too.
    """
    where = tree.git_directory or tree.repository
    if where is None or not os.path.isdir(where):
        return []
    return [part for own in missing_linked(common_of(where), tree.path) for part in _work_in(own, tree)]


def own_refs(directory: str) -> list[tuple[str, str]]:
    """The kinds of object and the names of the refs that only this worktree has (git-worktree(1), "REFS")."""
    words = "%(if)%(*objecttype)%(then)%(*objecttype)%(else)%(objecttype)%(end) %(refname)"
    lines = git(directory, "for-each-ref", f"--format={words}", "refs/worktree", "refs/rewritten").split("\n")
    return [(kind, ref) for kind, _, ref in (line.partition(" ") for line in lines if line)]


def lock_of(tree: OwnTree) -> str | None:
    """Say why git keeps the worktree although its directory is missing (`git worktree lock`), or return None."""
    where = tree.git_directory or tree.repository
    owns = [] if where is None or not os.path.isdir(where) else missing_linked(common_of(where), tree.path)
    for own in owns:
        if os.path.lexists(f"{own}/locked"):
            with suppress(OSError):
                if reason := read_file(f"{own}/locked", _REASON_MAX).data.decode("utf-8", "replace").strip():
                    return f"it is locked ({folded(reason, 200)})"
            return "it is locked"
    return None


def _work_in(own: str, tree: OwnTree) -> list[WorkPart]:
    is_born, refs = has_commit(repository_around(own)), own_refs(own)
    tips = [*(["HEAD"] if is_born else []), *(ref for kind, ref in refs if kind == "commit")]
    found, is_lost = list[WorkPart](), bool(_only_here(own, tips))
    if _has_staged(own):
        found.append(WorkPart("staged changes"))
    found += (WorkPart(f"the object of {folded(ref, 200)}") for kind, ref in refs if kind != "commit")
    if is_in_operation(own):  # with patches, and uncommitted changes of --autostash
        found.append(WorkPart(UNFINISHED))
    found += commits_of_deleted_branch(own, tree)
    found += _unfinished_submodules(own)
    if copies := list(_only_copies(own)):
        found.append(WorkPart(f"commits of submodules ({'; '.join(map(str, copies))})"))
    if not found and not is_lost:
        return []
    branch = f"refs/heads/{tree.branch}"
    if tree.is_new_branch and git(own, "for-each-ref", "--format=%(refname)", branch) == branch:
        commits = _only_here(own, [*tips, branch], f"--exclude={tree.branch}")
    else:
        commits = _only_here(own, tips)
    if commits:
        newest = git(own, "log", "--max-count=1", "--format=%h %s", commits[0], "--")
        more = f" and {len(commits) - 1} more" if len(commits) > 1 else ""
        text = f"{plural(len(commits), 'commit')} in no other branch or tag ({folded(newest, 100)}{more})"
        found.insert(0, WorkPart(text, commits))
    return found


def _only_here(own: str, tips: list[str], *excluded: str) -> list[str]:
    """The commits of `tips` that no branch or tag has, without the `excluded` ones, the newest first."""
    others = (*excluded, "--branches", "--tags", "--remotes", f"--glob={PULL_REQUESTS}/*")
    return git(own, "rev-list", *tips, "--not", *others, "--").split() if tips else []


def _only_copies(own: str) -> Iterator[OnlyCopy]:
    """The commits of submodules that neither a remote nor the main worktree has."""
    common = repository_around(own).common
    for name, path in _modules(own):
        try:
            commits = git(path, "rev-list", "--all", "--not", "--remotes").split()
            main = f"{common}/modules/{name}"
            if commits and os.path.isdir(main):
                known = set(git(main, "rev-list", "--all").split())
                commits = [commit for commit in commits if commit not in known]
            if commits:
                newest = git(path, "log", "--max-count=1", "--format=%h %s", commits[0], "--")
                yield OnlyCopy(name, len(commits), folded(newest, 100))
        except (ExternalError, IllegalState) as error:
            yield OnlyCopy(name, None, f"git cannot list its commits: {error.message}")


def _unfinished_submodules(own: str) -> Iterator[WorkPart]:
    """Describe the staged changes and the unfinished operations of submodules."""
    for name, path in _modules(own):
        found = [UNFINISHED] if is_in_operation(path) else []
        try:
            found += ["staged changes"] if _has_staged(path) else []
        except (ExternalError, IllegalState) as error:
            found.append(f"an index that git cannot read ({error.message})")
        yield from (WorkPart(f"{what} in the submodule {folded(name, 200)}") for what in found)


def _has_staged(directory: str) -> bool:
    """True if the index of this git directory has something else than its HEAD."""
    if not os.path.lexists(f"{directory}/index"):
        return False
    is_born = has_commit(repository_around(directory))
    base = "HEAD" if is_born else git(directory, "hash-object", "-t", "tree", "/dev/null")
    return git_answer(directory, "diff-index", "--cached", "--quiet", base, "--")[0] != 0


def _modules(own: str) -> Iterator[tuple[str, str]]:
    """The names of the submodules of the worktree, and their git directories. Raises ExternalError for too many."""
    for count, path in enumerate(_git_directories(f"{own}/modules")):
        if count >= _SUBMODULES_MAX:
            raise ExternalError(f"{folded(own, 4096)} has too many submodules to look into")
        yield os.path.relpath(path, f"{own}/modules"), path


def _git_directories(directory: str) -> Iterator[str]:
    """The git directories of submodules, whose names may have slashes, and of those inside of them."""
    for path, names, files in os.walk(directory):
        if "HEAD" in files and {"objects", "refs"} <= set(names):
            yield path
            names[:] = [name for name in names if name == "modules"]
