"""Finds the branch to merge into, and refuses a merge that could touch the work of a person there."""

import os
import shlex
from contextlib import suppress

from sm.capabilities.worktrees.deleted_branches import has_branch
from sm.capabilities.worktrees.git.calls import git, is_in_operation, repository_around
from sm.capabilities.worktrees.git.own_directory import settings_of
from sm.capabilities.worktrees.rules import is_branch
from sm.capabilities.worktrees.work import (
    Work,
    named_paths,
    quoted,
    refuse_sandboxed,
    uncommitted_in,
)
from sm.core.dataclass import dataclass
from sm.core.session_lines import name_to_type
from sm.core.text import folded
from sm.errors import ExternalError, IllegalState, UsageError
from sm.linux.repositories import checkouts, has_commit


@dataclass(frozen=True, slots=True)
class MergeTarget:
    """The branch to merge into, and the directory where it is checked out, or None."""

    into: str
    top: str | None
    around: str
    """A directory of the repository, for git: `top` if there is one."""
    tip: str = ""
    """The commit to merge into: that of the branch, or in a trial the outcome of the merges before this one."""

    @property
    def ref(self) -> str:
        return f"refs/heads/{self.into}"

    @property
    def where(self) -> str:
        return folded(self.into, 200) if self.top is None else folded(self.top, 4096)


def target_of(work: Work, main: str, onto: str | None) -> MergeTarget:
    """The branch to merge into. Raises IllegalState, UsageError and NotPermitted."""
    if onto is None:
        top = _directory(work, main)
        refuse_sandboxed(work.client, work.session, {top})
        if not has_commit(repository_around(top)):
            where = folded(top, 4096)
            # In a new repository there is no branch to switch to, and git takes the first commits as they are.
            command = "switch BRANCH" if git(top, "ls-files") else f"merge {shlex.quote(str(work.branch))}"
            raise IllegalState(
                f"the branch that is checked out in {where} has no commit",
                f"git -C {shlex.quote(where)} {command}",
            )
        into = git(top, "rev-parse", "--symbolic-full-name", "HEAD").removeprefix("refs/heads/")
        if into == "HEAD":
            where = folded(top, 4096)
            raise IllegalState(f"no branch is checked out in {where}", f"git -C {where} switch BRANCH")
        return MergeTarget(into, top, top)
    if not is_branch(onto) or not has_branch(work.top, onto):
        raise UsageError(
            f"there is no branch {folded(onto, 80)!r} in {folded(main, 4096)}",
            f"git -C {quoted(main)} branch",
        )
    repository = repository_around(work.top)
    for place in checkouts(repository, is_bare=settings_of(repository).bare):
        if place.branch == onto:
            refuse_sandboxed(work.client, work.session, {place.top})
            return MergeTarget(onto, place.top, place.top)
    return MergeTarget(onto, None, work.top)


def _directory(work: Work, main: str) -> str:
    with suppress(ExternalError, FileNotFoundError):
        here = repository_around(os.getcwd())
        has_files = here.top is not None and (here.is_linked or not settings_of(here).bare)
        if has_files and here.common == work.common and here.top != work.top:
            return str(here.top)
    refuse_sandboxed(work.client, work.session, {main})
    if settings_of(repository_around(work.top)).bare:
        raise IllegalState(
            f"the repository in {folded(main, 4096)} is bare: no branch is checked out in it",
            f"sm merge {name_to_type(work.session)} --onto BRANCH",
        )
    return os.path.realpath(git(main, "rev-parse", "--show-toplevel"))


def refuse_changed_directory(work: Work, top: str) -> None:
    """Raises IllegalState if a merge in the directory could touch the work of a person there."""
    where = folded(top, 4096)
    if is_in_operation(git(top, "rev-parse", "--absolute-git-dir")):
        raise IllegalState(f"a rebase, merge, cherry-pick or bisect is in progress in {where}")
    if changed := uncommitted_in(work, top, new_files=False):
        raise IllegalState(
            f"{where} has uncommitted changes: {named_paths(changed)}", "commit or stash them first"
        )
