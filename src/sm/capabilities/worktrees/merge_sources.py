"""Finds the branch that has all work of a session, before that is merged."""

from sm.capabilities.worktrees.copies.merging import CopyMerger
from sm.capabilities.worktrees.deleted_branches import has_branch
from sm.capabilities.worktrees.git.calls import git, is_in_operation, repository_around
from sm.capabilities.worktrees.work import (
    Work,
    named_paths,
    quoted,
    refuse_sandboxed,
    uncommitted_in,
    without_commit,
)
from sm.core.session_lines import label, name_to_type
from sm.core.statuses import ENDED
from sm.core.text import folded
from sm.errors import IllegalState
from sm.linux.repositories import has_commit


def own_branch(work: Work) -> tuple[str, str]:
    """The branch of the session's own worktree, and the directory of its repository.

    Raises IllegalState if it works in a directory that others share.
    """
    if work.branch is None or work.tree is None or work.tree.repository is None:
        raise IllegalState(
            f"{label(work.session)} has no worktree of its own: its changes are already in {folded(work.top, 4096)}",
            f"sm diff {name_to_type(work.session)}",
        )
    return work.branch, work.tree.repository


def copy_merger(work: Work) -> tuple[CopyMerger, str]:
    """The merger of the copy of a session, and the directory that it merges into.

    Raises NotPermitted if a sandboxed session could write there.
    """
    _, directory = own_branch(work)
    refuse_sandboxed(work.client, work.session, {directory, work.top})
    start = None if work.tree is None else work.tree.start
    return CopyMerger(work.top, directory, start), directory


def branch_to_merge(work: Work, use: str = "a merge") -> str:
    """The branch with all commits of the worktree: its own, or one that the agent has made and checked out there.

    `use`: the use of the branch, in words. Raises IllegalState if there is none, and if uncommitted changes would be
    left behind.
    """
    name, own = label(work.session), own_branch(work)[0]
    _refuse_unfinished(work, name)
    branch = _branch_with_all(work, name, own, use)
    if left := uncommitted_in(work, work.top):
        again = "merge again" if use == "a merge" else "try again"
        raise IllegalState(
            f"{name} has uncommitted changes, which {use} would leave behind: {named_paths(left)}",
            _hint(work, "Commit your work", f"commit them in {folded(work.top, 4096)}, then {again}"),
        )
    return branch


def _refuse_unfinished(work: Work, name: str) -> None:
    """Raises IllegalState during an operation of git."""
    if is_in_operation(git(work.top, "rev-parse", "--absolute-git-dir")):
        raise IllegalState(
            f"{name} has not finished a rebase, merge, cherry-pick or bisect in its worktree",
            _hint(work, "Finish or abort the operation of git", f"git -C {quoted(work.top)} status"),
        )


def _branch_with_all(work: Work, name: str, own: str, use: str) -> str:
    """The branch with all commits of the worktree: `own`, or one that the agent has made and checked out there.

    Raises IllegalState if there is none.
    """
    top, ref = work.top, f"refs/heads/{own}"
    if not has_commit(repository_around(top)):
        raise without_commit(work.session, top, own)
    exists = has_branch(top, own)
    if exists and not git(top, "rev-list", "--max-count=1", "HEAD", f"^{ref}", "--"):
        return own
    head = git(top, "rev-parse", "--symbolic-full-name", "HEAD")
    other = head.removeprefix("refs/heads/")
    if other == head and not exists:
        raise IllegalState(
            f"the branch {own} of {name} was deleted, and no branch is checked out in its worktree",
            f"git -C {quoted(top)} switch -c {own}",
        )
    if other == head:
        raise IllegalState(
            f"{name} has a commit that is not on its branch {own}, which {use} would leave behind",
            _hint(work, f"Bring your commits to the branch {own}", f"git -C {quoted(top)} switch -c BRANCH"),
        )
    if exists and git(top, "rev-list", "--max-count=1", ref, "^HEAD", "--"):
        raise IllegalState(
            f"{name} has commits on two branches, {own} and {folded(other, 200)}, and {use} takes only one",
            _hint(
                work,
                f"Merge the branch {own} into the branch that is checked out",
                f"git -C {quoted(top)} merge {own}",
            ),
        )
    return other


def _hint(work: Work, request: str, command: str) -> str:
    """The command that asks a live agent; for an ended one, what a person does."""
    if work.session["status"] in ENDED:
        return command
    return f"sm send {name_to_type(work.session)} '{request}'"
