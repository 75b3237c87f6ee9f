"""Finds work in the worktree of a session that exists nowhere else, before `sm rm` forgets the session."""

import os
import re
from collections.abc import Collection

from sm.capabilities.worktrees.copies.copy_work import copy_work
from sm.capabilities.worktrees.git.calls import (
    common_of,
    git,
    is_in_operation,
    is_sandboxed,
    repository_around,
)
from sm.capabilities.worktrees.git.hidden_changes import hidden_changes
from sm.capabilities.worktrees.git.linked import is_half_removed
from sm.capabilities.worktrees.git.remotes import PULL_REQUESTS
from sm.capabilities.worktrees.git.submodules import only_copies, submodules, uncommitted_submodules
from sm.capabilities.worktrees.missing_trees import missing_work, own_refs
from sm.capabilities.worktrees.nested_repositories import nested_work
from sm.capabilities.worktrees.own_trees import OwnTree, tree_of_session
from sm.client.http import Client
from sm.core.dataclass import dataclass
from sm.core.lines import JsonObject, plural
from sm.core.session_lines import label, name_to_type
from sm.core.text import folded
from sm.errors import ExternalError, IllegalState
from sm.linux.repositories import has_commit

_SHOWN_MAX = 5
_SANDBOXED = "a sandboxed session may have changed the programs that git runs in it"
_FIELDS = {"1": 8, "2": 9, "u": 10, "?": 1}
"""The number of fields before the path in a line of `git status --porcelain=v2` (git-status(1)), by its kind."""
_RENAMED = re.compile("Branch: renamed refs/heads/([^ ]+) to refs/heads/([^ ]+)")


@dataclass(frozen=True, slots=True)
class UnsavedWork:
    """The work of `session` that exists only in its worktree at `path`, and how a person keeps it.

    `parts`: noun phrases. `unknown`: why sm cannot look into the worktree. `is_missing`: its directory is.
    """

    session: JsonObject
    path: str
    parts: tuple[str, ...] = ()
    has_files: bool = False
    unknown: str | None = None
    is_missing: bool = False

    def refusal(self) -> IllegalState:
        """The error of `sm rm`."""
        reference = name_to_type(self.session)
        if self.unknown is not None:
            return IllegalState(
                f"{label(self.session)} may have work in {self.path} that exists nowhere else: {self.unknown}",
                f"look there yourself; to delete only the session: sm rm {reference} --discard",
            )
        if self.is_missing:
            return IllegalState(
                f"{label(self.session)} has {self}",
                "to keep it: move the directory back, or: git branch NAME COMMIT; "
                f"to delete it: sm rm {reference} --discard",
            )
        commit = f"commit it in {self.path}, then: " if self.has_files else ""
        return IllegalState(
            f"{label(self.session)} has {self}",
            f"to keep it: {commit}sm merge {reference}; to delete it: sm rm {reference} --discard",
        )

    def summary(self) -> str:
        return f"{label(self.session)}: {self._found} in {self.path}"

    def __str__(self) -> str:
        return f"work in {self.path} that exists nowhere else: {self._found}"

    @property
    def _found(self) -> str:
        return "; ".join(self.parts) if self.unknown is None else f"sm cannot look: {self.unknown}"


def unsaved_work_of(client: Client, session: JsonObject, leaving: Collection[str] = ()) -> UnsavedWork | None:
    """Look into the worktree that sm has made for a session. Returns None if nothing would be lost with the session.

    `leaving`: the branches of other sessions that are removed together with it, so that they keep no commit.
    """
    tree = tree_of_session(client, session)
    if tree is None or tree.repository is None:
        return None
    shown = folded(tree.path, 4096)
    try:
        if session["effective_mode"] != "direct":
            raise IllegalState(_SANDBOXED)
        files, parts = _looked_at(client, tree, leaving)
    except (ExternalError, IllegalState) as error:
        return UnsavedWork(session, shown, unknown=error.message)
    if not files and not parts:
        return None
    missing = not os.path.lexists(tree.path)
    return UnsavedWork(session, shown, (*files, *parts), bool(files), is_missing=missing)


def tree_work(client: Client, tree: OwnTree) -> str | None:
    """Describe the work in a worktree that exists nowhere else. Returns None if nothing would be lost with it."""
    try:
        files, parts = _looked_at(client, tree, must_say=True)
    except (ExternalError, IllegalState) as error:
        return f"sm cannot look: {error.message}"
    return "; ".join((*files, *parts)) or None


def _looked_at(
    client: Client, tree: OwnTree, leaving: Collection[str] = (), *, must_say: bool = False
) -> tuple[list[str], list[str]]:
    """As `unsaved_files` and `unsaved_commits`. Raises IllegalState if git must not run there, and ExternalError.

    `must_say`: raise it too for something else in the place of the worktree, which `sm rm` does not touch.
    """
    path = tree.path
    if tree.repository is not None and not os.path.lexists(path):
        if is_sandboxed(client, {tree.repository}):
            raise IllegalState(_SANDBOXED)
        return [], missing_work(tree)
    if tree.repository is None or not os.path.isdir(path) or os.path.realpath(path) != path:
        if must_say:
            raise IllegalState("sm did not make what is there")
        return [], []
    if is_sandboxed(client, {tree.repository, path}):
        raise IllegalState(_SANDBOXED)
    if tree.is_copy:
        return [], copy_work(path, tree.repository, tree.start)
    if is_own_worktree(tree):
        return unsaved_files(path), unsaved_commits(tree, leaving)
    if must_say:
        raise IllegalState("it is not the worktree that sm made")
    return [], []


def unsaved_files(path: str) -> list[str]:
    """Describe uncommitted and untracked files, and an unfinished operation of git. Raises ExternalError."""
    found = []
    if is_in_operation(repository_around(path).own):
        found.append("an unfinished rebase, merge, cherry-pick or bisect")
    if files := _uncommitted(path):
        more = f" and {len(files) - _SHOWN_MAX} more" if len(files) > _SHOWN_MAX else ""
        names = ", ".join(folded(file, 200) for file in files[:_SHOWN_MAX])
        found.append(f"{plural(len(files), 'uncommitted or untracked file')} ({names}{more})")
    if hidden := hidden_changes(path):
        names = ", ".join(folded(file, 200) for file in hidden[:_SHOWN_MAX])
        found.append(f"changes that git was told not to look at ({names})")
    found += (
        f"uncommitted or untracked files in the submodule {folded(inside, 200)}"
        for inside in uncommitted_submodules(path)
    )
    found += nested_work(path, submodules(path))
    return found


def unsaved_commits(tree: OwnTree, leaving: Collection[str] = ()) -> list[str]:
    """Describe the commits of a worktree and its submodules that exist nowhere else. Raises ExternalError.

    Commits of the branch whose changes are in the branch of the repository, as after `sm merge --squash`, exist there:
    the branch stays then, with a warning. Not commits that only HEAD has, as two that undo each other.
    """
    found, path = [], tree.path
    commits = _only_here(tree, leaving, keeps_branch=is_squashed(tree))
    if commits:
        newest = git(path, "log", "--max-count=1", "--format=%h %s", commits[0], "--")
        more = f" and {len(commits) - 1} more" if len(commits) > 1 else ""
        found.append(
            f"{plural(len(commits), 'commit')} in no other branch or tag ({folded(newest, 100)}{more})"
        )
    found += _of_deleted_branch(tree, leaving)
    found += (f"the object of {folded(ref, 200)}" for kind, ref in own_refs(path) if kind != "commit")
    if copies := only_copies(path, tree.repository):
        found.append(f"commits of submodules ({'; '.join(map(str, copies))})")
    return found


def is_own_worktree(tree: OwnTree) -> bool:
    """True for a worktree that sm has made for this branch: a caller of the API may name any directory."""
    path, main = tree.path, tree.repository
    if tree.git_directory is not None:
        found = repository_around(path)
        return found.top == path and found.is_linked and found.common == tree.git_directory
    common, own = common_of(path), git(path, "rev-parse", "--absolute-git-dir")
    top = git(path, "rev-parse", "--show-toplevel")
    return main is not None and top == path and own != common and is_main(main, common)


def is_main(main: str, common: str) -> bool:
    """True if `main` is the directory of the repository with this git directory."""
    if common == os.path.join(main, ".git"):
        return True
    return common_of(main) == common and os.path.realpath(git(main, "rev-parse", "--show-toplevel")) == main


def _uncommitted(path: str) -> list[str]:
    half_removed = is_half_removed(repository_around(path).own)
    lines = iter(git(path, "status", "--porcelain=v2", "-z").split("\0"))
    found = []
    for line in lines:
        if (fields := _FIELDS.get(line[:1])) is None:
            continue
        if not (half_removed and line.startswith("1 .D ")):
            found.append(line.split(" ", fields)[-1])
        if line.startswith("2 "):
            next(lines, None)  # the former path of a renamed file
    return found


def _only_here(tree: OwnTree, leaving: Collection[str], *, keeps_branch: bool) -> list[str]:
    """The commits that only HEAD, its own refs and the new branch of the worktree have, the newest first.

    `keeps_branch`: the branch stays.
    """
    others, tips = _others(tree, leaving, keeps_branch=keeps_branch), _tips(tree.path, tree.branch)
    return git(tree.path, "rev-list", *tips, "--not", *others, "--").split() if tips else []


def _others(tree: OwnTree, leaving: Collection[str], *, keeps_branch: bool = False) -> list[str]:
    """The options of git for the refs that stay when the worktree is removed, with its new branch or without it."""
    own = [f"--exclude={branch}" for branch in leaving if branch != tree.branch]
    own += [f"--exclude={tree.branch}"] if tree.is_new_branch and not keeps_branch else []
    return [*own, "--branches", "--tags", "--remotes", f"--glob={PULL_REQUESTS}/*"]


def _of_deleted_branch(tree: OwnTree, leaving: Collection[str]) -> list[str]:
    """Describe the commits of a branch that was deleted, if only the log of the worktree still has them."""
    path = tree.path
    if tree.start == "" or has_branch(path, _present_name(path, tree.branch)):
        return []
    logged = git(path, "log", "--walk-reflogs", "--format=%H", "HEAD", "--").split()
    if not logged:
        return [f"a deleted branch, {folded(tree.branch, 200)}, of whose commits there is no log"]
    lost = git(path, "rev-list", *dict.fromkeys(logged), "--not", *_others(tree, leaving), "--").split()
    return [f"{plural(len(lost), 'commit')} of a deleted branch"] if lost else []


def _present_name(path: str, branch: str) -> str:
    """The name of a branch after `git branch -m`, as the log of the worktree has it."""
    if has_branch(path, branch):
        return branch
    messages = git(path, "log", "--walk-reflogs", "--format=%gs", "HEAD", "--").split("\n")
    for message in reversed(messages):
        match = _RENAMED.fullmatch(message)
        branch = match[2] if match is not None and match[1] == branch else branch
    return branch


def _tips(path: str, branch: str) -> list[str]:
    own = f"refs/heads/{branch}"
    tips = ["HEAD"] if has_commit(repository_around(path)) else []
    tips += [ref for kind, ref in own_refs(path) if kind == "commit"]
    return [*tips, own] if has_branch(path, branch) else tips


def has_branch(path: str, branch: str) -> bool:
    ref = f"refs/heads/{branch}"
    return git(path, "for-each-ref", "--format=%(refname)", ref) == ref


def is_squashed(tree: OwnTree) -> bool:
    """True if each file that the branch has changed is the same in the branch of the repository."""
    path, tips = tree.path, _tips(tree.path, tree.branch)
    try:
        where = tree.git_directory or tree.repository or path
        target = git(where, "rev-parse", "--verify", "HEAD")
        return all(_has_changes_of(path, target, tip) for tip in tips)
    except (ExternalError, IllegalState):  # no commit there, or no common one
        return False


def _has_changes_of(path: str, target: str, tip: str) -> bool:
    base = git(path, "merge-base", target, tip)
    return not _changed(path, base, tip) & _changed(path, target, tip)


def _changed(path: str, one: str, other: str) -> set[str]:
    listed = git(path, "diff", "--name-only", "--no-renames", "-z", one, other, "--")
    return set(filter(None, listed.split("\0")))
