"""Creates git worktrees for `sm spawn --worktree` and removes them for `sm rm`."""

import os
import shlex
from collections.abc import Mapping
from typing import Any

from sm.capabilities.worktrees.git.calls import add_worktree, common_of, git, is_sandboxed, repository_around
from sm.capabilities.worktrees.git.submodules import submodules
from sm.capabilities.worktrees.rules import (
    PLACE,
    is_name,
    outer_repository,
    path_and_branch,
    repository_of,
)
from sm.capabilities.worktrees.unsaved_work import (
    has_branch,
    is_main,
    is_own_worktree,
    unsaved_commits,
    unsaved_files,
)
from sm.client.http import Client
from sm.client.pages import whole_list
from sm.core.dataclass import dataclass
from sm.core.text import folded
from sm.errors import (
    ExternalError,
    IllegalState,
    NotPermitted,
    SandboxUnavailable,
    SmError,
    UsageError,
)
from sm.linux.repositories import has_commit
from sm.operations.hints import Argument, Hint, Use
from sm.operations.session_operations import SPAWN
from sm.paths import is_within


@dataclass(frozen=True, slots=True)
class Worktree:
    """A new worktree at the absolute `path`, on its own `branch`.

    `directory` is the session's working directory, `common` the repository's git directory, `start` the commit.
    """

    path: str
    branch: str
    directory: str
    common: str
    start: str

    def roll_back(self, client: Client, error: SmError) -> None:
        """Remove the worktree after a spawn failed with `error`, unless a session may work in it.

        A worktree that cannot be removed stays listed in `git worktree list`.
        """
        if error.http_status >= 500 and not isinstance(error, SandboxUnavailable):
            return  # the daemon may have started the agent
        try:
            sessions = whole_list(client, "/v1/sessions", {"archived": True})
            if any((session["worktree"] or {}).get("path") == self.path for session in sessions):
                return
            git(self.common, "worktree", "remove", *_force(self.path), self.path)
            git(self.common, "update-ref", "-d", f"refs/heads/{self.branch}", self.start)
        except SmError:
            return


def make(client: Client, directory: str, name: str) -> Worktree:
    """Create a worktree of the repository around `directory`, on a new branch from HEAD.

    Raises UsageError when there is no repository, or the worktree or branch exists; NotPermitted when a sandboxed
    session may have changed the programs that git runs.
    """
    if not is_name(name):
        raise UsageError(
            f"invalid branch name {folded(name, 80)!r}", "use letters a-z, digits, dot, dash and underscore"
        )
    try:
        repository = repository_around(directory)
    except ExternalError as error:
        raise UsageError(f"{folded(directory, 200)} is not in a git repository: {error.message}") from None
    common, top = repository.common, repository.top
    if top is None or not is_within(os.path.realpath(directory), top):
        raise UsageError(f"{folded(directory, 200)} is not in a git worktree")
    main = os.path.dirname(common) if os.path.basename(common) == ".git" else outer_repository(top)
    path, branch = path_and_branch(main, name)
    if os.path.lexists(path):
        raise UsageError(f"worktree {path} already exists", "choose another --name")
    if os.path.realpath(path) != path:
        raise UsageError(f"cannot create worktree {name}: the path {main}/{PLACE} contains a link")
    if is_sandboxed(client, {common, main, top}):
        raise NotPermitted(
            f"a sandboxed session may have changed the programs that git runs in {folded(main, 200)}",
            Hint(
                "create a worktree yourself, then: ",
                Use(SPAWN, "AGENT_TYPE", Argument("working_dir", "PATH")),
            ),
        )
    if not has_commit(repository):
        raise UsageError(
            f"cannot create worktree {name}: the branch that is checked out in {folded(top, 4096)} has no commit yet",
            f"git -C {shlex.quote(folded(top, 4096))} commit",
        )
    _hide(common)
    try:
        start = git(directory, "rev-parse", "--verify", "HEAD")
        add_worktree(directory, path, branch, start)
    except ExternalError as error:
        hint = "choose another --name" if "already exists" in error.message else None
        raise UsageError(f"cannot create worktree {name}: {error.message}", hint) from None
    inside = os.path.normpath(os.path.join(path, os.path.relpath(os.path.realpath(directory), top)))
    return Worktree(path, branch, inside if os.path.isdir(inside) else path, common, start)


def clean(session: Mapping[str, Any], *, discard: bool = False) -> str | None:
    """Remove the worktree and branch of a removed session. Return a warning about the part that stays, or None.

    `session` is the daemon's answer to the removal. The worktree stays when another session works there, or when its
    removal would destroy data other than ignored files. The branch stays while it has commits that no other ref has.
    `discard`: the user does not want these files and commits.
    """
    path, branch = str(session["worktree"]["path"]), str(session["worktree"]["branch"])
    reason: str | None
    try:
        if session["sandboxed"]:
            reason = "a sandboxed session may have changed the programs that git runs in it"
        elif session["used"]:
            reason = "another session works there"
        elif not os.path.lexists(path):
            return _prune(repository_of(path, branch), branch, discard=discard)
        else:
            reason = _reason_not_to_touch(path, branch)
            # Work that came after `unsaved_work_of` has looked: the session is deleted, so `--discard` is too late.
            if reason is None and not discard and (work := _reason_to_keep(path, branch)) is not None:
                main = shlex.quote(repository_of(path, branch) or ".")
                reason = f"{work}; to delete it: git -C {main} worktree remove --force {shlex.quote(path)}"
        if reason is None:
            common = common_of(path)
            git(common, "worktree", "remove", *(["--force"] if discard else _force(path)), path)
    except (ExternalError, IllegalState) as error:
        reason = error.message
    if reason is not None:
        return f"kept the worktree {folded(path, 4096)}: {reason}"
    return _remove_branch(common, branch, discard=discard)


def _prune(main: str | None, branch: str, *, discard: bool) -> str | None:
    """Make git forget a worktree whose directory is gone, and remove its branch. Return a warning, or None."""
    if main is None or not os.path.isdir(main):
        return None
    common = common_of(main)
    if not is_main(main, common) or not git(main, "for-each-ref", f"refs/heads/{branch}"):
        return None
    git(common, "worktree", "prune")
    return _remove_branch(common, branch, discard=discard)


def _remove_branch(common: str, branch: str, *, discard: bool) -> str | None:
    ref = f"refs/heads/{branch}"
    try:
        containing = git(common, "for-each-ref", "--format=%(refname)", f"--contains={ref}")
        if discard or set(containing.split("\n")) - {ref}:
            git(common, "branch", "-D", branch)
            return None
        reason = "it has commits that no other branch or tag contains"
    except ExternalError as error:
        reason = error.message
    return f"kept the branch {folded(branch, 200)}: {reason}"


def _reason_not_to_touch(path: str, branch: str) -> str | None:
    """Check that the worktree is one that sm created for this branch. Return the reason to keep it, or None.

    Raises ExternalError.
    """
    main = repository_of(path, branch)
    if main is None or os.path.realpath(path) != path:
        return "sm did not create this worktree"
    if not is_own_worktree(path, branch):
        return f"it is not a worktree of the repository in {folded(main, 4096)}"
    worktrees = git(path, "worktree", "list", "--porcelain").split("\n")
    if any(entry.startswith(f"worktree {path}/") for entry in worktrees):
        return "it contains another worktree"
    return None


def _reason_to_keep(path: str, branch: str) -> str | None:
    """Check for data that `git worktree remove` would destroy. Return the reason to keep it, or None.

    Raises ExternalError.
    """
    if work := [*unsaved_files(path), *unsaved_commits(path, branch)]:
        return f"it has {'; '.join(work)}"
    return None if has_branch(path, branch) else f"there is no branch {branch}"


def _force(path: str) -> list[str]:
    """The option without which git removes no worktree with a submodule, even an empty one."""
    return ["--force"] if submodules(path) else []


def _hide(common: str) -> None:
    """Make git ignore `.sm`, through a file that is never committed."""
    exclude, rule = f"{common}/info/exclude", f"/{PLACE}/".encode()
    try:
        os.makedirs(f"{common}/info", exist_ok=True)
        with open(exclude, "a+b") as file:
            file.seek(0)
            before = file.read()
            if rule not in before.split(b"\n"):
                file.write((b"\n" if before and not before.endswith(b"\n") else b"") + rule + b"\n")
    except OSError as error:
        raise ExternalError(f"cannot write {exclude}: {error.strerror}") from None
