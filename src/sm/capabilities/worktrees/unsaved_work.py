"""Finds work in the worktree of a session that exists nowhere else, before `sm rm` forgets the session."""

import os
from collections.abc import Collection

from sm.capabilities.worktrees.copies.copy_work import copy_work
from sm.capabilities.worktrees.deleted_branches import commits_of_deleted_branch, has_branch, other_refs
from sm.capabilities.worktrees.git.calls import (
    common_of,
    git,
    is_in_operation,
    is_sandboxed,
    repository_around,
)
from sm.capabilities.worktrees.git.hidden_changes import hidden_changes
from sm.capabilities.worktrees.git.linked import is_half_removed
from sm.capabilities.worktrees.git.submodules import only_copies, submodules, uncommitted_submodules
from sm.capabilities.worktrees.missing_trees import missing_work, own_refs
from sm.capabilities.worktrees.nested_repositories import nested_work
from sm.capabilities.worktrees.own_trees import OwnTree, tree_of_session
from sm.capabilities.worktrees.work_parts import UNFINISHED, WorkPart, files_part, items_of
from sm.client.http import Client
from sm.core.dataclass import dataclass
from sm.core.lines import JsonObject, plural
from sm.core.session_lines import label, name_to_type
from sm.core.text import folded
from sm.errors import ExternalError, IllegalState
from sm.linux.repositories import has_commit

_SHOWN_MAX = 5
SANDBOXED = "a sandboxed session may have changed the programs that git runs in it"
_FIELDS = {"1": 8, "2": 9, "u": 10, "?": 1}
"""The number of fields before the path in a line of `git status --porcelain=v2` (git-status(1)), by its kind."""


@dataclass(frozen=True, slots=True)
class UnsavedWork:
    """The work of `session` that exists only in its worktree at `path`, and how a person keeps it.

    `parts`: noun phrases. `unknown`: why sm cannot look into the worktree. `is_missing`: its directory is.
    """

    session: JsonObject
    path: str
    parts: tuple[WorkPart, ...] = ()
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
            raise IllegalState(SANDBOXED)
        files, parts = _looked_at(client, tree, leaving)
    except (ExternalError, IllegalState) as error:
        return UnsavedWork(session, shown, unknown=error.message)
    if not files and not parts:
        return None
    missing = not os.path.lexists(tree.path)
    return UnsavedWork(session, shown, (*files, *parts), bool(files), is_missing=missing)


def tree_work(client: Client, tree: OwnTree) -> str | None:
    """Describe the work in a worktree that exists nowhere else. Returns None if nothing would be lost with it.

    A WorkPart, or plain text if sm cannot look there.
    """
    try:
        files, parts = _looked_at(client, tree, must_say=True)
    except (ExternalError, IllegalState) as error:
        return f"sm cannot look: {error.message}"
    found = (*files, *parts)
    return WorkPart("; ".join(found), items_of(found)) if found else None


def _looked_at(
    client: Client, tree: OwnTree, leaving: Collection[str] = (), *, must_say: bool = False
) -> tuple[list[WorkPart], list[WorkPart]]:
    """As `unsaved_files` and `unsaved_commits`. Raises IllegalState if git must not run there, and ExternalError.

    `must_say`: raise it too for something else in the place of the worktree, which `sm rm` does not touch.
    """
    path = tree.path
    if tree.repository is not None and not os.path.lexists(path):
        if is_sandboxed(client, {tree.repository}):
            raise IllegalState(SANDBOXED)
        return [], missing_work(tree)
    if tree.repository is None or not os.path.isdir(path) or os.path.realpath(path) != path:
        if must_say:
            raise IllegalState("sm did not make what is there")
        return [], []
    if is_sandboxed(client, {tree.repository, path}):
        raise IllegalState(SANDBOXED)
    if tree.is_copy:
        return [], copy_work(path, tree.repository, tree.start)
    if is_own_worktree(tree):
        return unsaved_files(path), unsaved_commits(tree, leaving)
    if must_say:
        raise IllegalState("it is not the worktree that sm made")
    return [], []


def unsaved_files(path: str) -> list[WorkPart]:
    """Describe uncommitted and untracked files, and an unfinished operation of git. Raises ExternalError."""
    found = list[WorkPart]()
    if is_in_operation(repository_around(path).own):
        found.append(WorkPart(UNFINISHED))
    if files := _uncommitted(path):
        more = f" and {len(files) - _SHOWN_MAX} more" if len(files) > _SHOWN_MAX else ""
        names = ", ".join(folded(file, 200) for file in files[:_SHOWN_MAX])
        found.append(
            files_part(f"{plural(len(files), 'uncommitted or untracked file')} ({names}{more})", files)
        )
    if hidden := hidden_changes(path):
        names = ", ".join(folded(file, 200) for file in hidden[:_SHOWN_MAX])
        found.append(files_part(f"changes that git was told not to look at ({names})", hidden))
    found += (
        WorkPart(f"uncommitted or untracked files in the submodule {folded(inside, 200)}")
        for inside in uncommitted_submodules(path)
    )
    found += map(WorkPart, nested_work(path, submodules(path)))
    return found


def unsaved_commits(tree: OwnTree, leaving: Collection[str] = ()) -> list[WorkPart]:
    """Describe the commits of a worktree and its submodules that exist nowhere else. Raises ExternalError.

    Commits of the branch whose changes are in the branch of the repository, as after `sm merge --squash`, exist there:
    the branch stays then, with a warning. Not commits that only HEAD has, as two that undo each other.
    """
    found, path = list[WorkPart](), tree.path
    commits = _only_here(tree, leaving, keeps_branch=False)
    if commits and is_squashed(tree):
        commits = _only_here(tree, leaving, keeps_branch=True)
    if commits:
        newest = git(path, "log", "--max-count=1", "--format=%h %s", commits[0], "--")
        more = f" and {len(commits) - 1} more" if len(commits) > 1 else ""
        text = f"{plural(len(commits), 'commit')} in no other branch or tag ({folded(newest, 100)}{more})"
        found.append(WorkPart(text, commits))
    found += commits_of_deleted_branch(path, tree, leaving)
    found += (
        WorkPart(f"the object of {folded(ref, 200)}") for kind, ref in own_refs(path) if kind != "commit"
    )
    if copies := only_copies(path, tree.repository):
        found.append(WorkPart(f"commits of submodules ({'; '.join(map(str, copies))})"))
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
    others, tips = other_refs(tree, leaving, keeps_branch=keeps_branch), _tips(tree.path, tree.branch)
    return git(tree.path, "rev-list", *tips, "--not", *others, "--").split() if tips else []


def _tips(path: str, branch: str) -> list[str]:
    own = f"refs/heads/{branch}"
    tips = ["HEAD"] if has_commit(repository_around(path)) else []
    tips += [ref for kind, ref in own_refs(path) if kind == "commit"]
    return [*tips, own] if has_branch(path, branch) else tips


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
