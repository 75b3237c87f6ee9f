"""Git worktrees for sessions: `sm spawn --worktree` makes one, `sm rm` removes it.

Git runs here, as the caller, and never in the daemon: a repository's own configuration names programs that git runs,
and an agent may be able to write it. Where a sandboxed one may, git is not run at all.
"""

import os
import subprocess
from collections.abc import Mapping
from typing import Any

from sm.client.http import Client
from sm.core.text import folded
from sm.core.worktrees import PLACE, above, is_name, main_of, overlap, placed
from sm.errors import ExternalError, InvalidPath, NotPermitted, SandboxUnavailable, SmError, UsageError

_WITHIN_S = 120
_ALWAYS = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"),
    *("-c", "status.showUntrackedFiles=normal"),  # `worktree remove` goes by what status shows
)
_UNDER_WAY = (
    "rebase-merge", "rebase-apply", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "sequencer", "BISECT_LOG",
)  # fmt: skip
"""What git leaves in a worktree's own directory until it is done (path.c, wt-status.c)."""


class Worktree:
    """One that was made: `path` absolute, `branch` its own, `directory` where the session works in it."""

    __slots__ = ("branch", "common", "directory", "path", "start")

    def __init__(self, path: str, branch: str, directory: str, common: str, start: str) -> None:
        self.path = path
        self.branch = branch
        self.directory = directory
        self.common = common
        self.start = start

    def taken_back(self, client: Client, error: SmError) -> None:
        """Remove it after a spawn that failed with `error`, unless there may be a session that works in it.

        `git worktree list` shows what is left.
        """
        if error.http_status >= 500 and not isinstance(error, SandboxUnavailable):
            return  # it was started and has failed, or nobody knows
        try:
            sessions = client.get("/v1/sessions", {"archived": True})
            if any((session["worktree"] or {}).get("path") == self.path for session in sessions):
                return
            _git(self.common, "worktree", "remove", self.path)
            _git(self.common, "update-ref", "-d", f"refs/heads/{self.branch}", self.start)
        except SmError:
            return


def make(client: Client, directory: str, name: str) -> Worktree:
    """A worktree beside the others of the repository around `directory`, on a new branch from what is checked out.

    Raises UsageError where there is no repository, or one with a worktree or branch of that name; NotPermitted where
    a sandboxed session may have changed what git runs.
    """
    if not is_name(name):
        raise UsageError(f"name {folded(name, 80)!r} is not usable for a branch")
    try:
        top = _git(directory, "rev-parse", "--show-toplevel")
    except ExternalError as error:
        raise UsageError(f"{folded(directory, 200)} is in no git repository: {error.message}") from None
    if not top:
        raise UsageError(f"{folded(directory, 200)} is in no git worktree")
    common, top = _common(directory), os.path.realpath(top)
    main = os.path.dirname(common) if os.path.basename(common) == ".git" else above(top)
    path, branch = placed(main, name)
    if os.path.lexists(path):
        raise UsageError(f"there is a worktree {path} already", "choose another --name")
    if os.path.realpath(path) != path:
        raise UsageError(f"no worktree for {name}: a link leads from {main}/{PLACE} to elsewhere")
    if _sandboxed(client, {common, main, top}):
        raise NotPermitted(
            f"a sandboxed session may have changed what git runs in {folded(main, 200)}",
            "make a worktree yourself, and name it with --working-dir",
        )
    _hide(common)
    try:
        start = _git(directory, "rev-parse", "--verify", "HEAD")
        _git(directory, "worktree", "add", "--quiet", "--no-track", "-b", branch, path, start)
    except ExternalError as error:
        hint = "choose another --name" if "already exists" in error.message else None
        raise UsageError(f"no worktree for {name}: {error.message}", hint) from None
    works = os.path.normpath(os.path.join(path, os.path.relpath(os.path.realpath(directory), top)))
    return Worktree(path, branch, works if os.path.isdir(works) else path, common, start)


def clean(session: Mapping[str, Any]) -> str | None:
    """Remove the worktree of a session that was removed; what is to be said of it, None for nothing.

    `session` is the daemon's answer to its removal. Left alone when something that is nowhere else would go with
    it, but for ignored files, or another session works there. The branch stays while it has commits that are nowhere
    else.
    """
    path, branch = str(session["worktree"]["path"]), str(session["worktree"]["branch"])
    reason: str | None
    try:
        if session["sandboxed"]:
            reason = "a sandboxed session may have changed what git runs in it"
        elif session["used"]:
            reason = "another session works there"
        elif not os.path.lexists(path):  # somebody has removed it, and git still knows of it
            return _cleaned_after(main_of(path, branch), branch)
        else:
            reason = _reason_to_keep(path, branch)
        if reason is None:
            common = _common(path)
            _git(common, "worktree", "remove", path)
    except ExternalError as error:
        reason = error.message
    if reason is not None:
        return f"the worktree {folded(path, 4096)} stays: {reason}"
    return _remove_branch(common, branch)


def _cleaned_after(main: str | None, branch: str) -> str | None:
    if main is None or not os.path.isdir(main):
        return None
    common = _common(main)
    if not _is_main(main, common) or not _git(main, "for-each-ref", f"refs/heads/{branch}"):
        return None
    _git(common, "worktree", "prune")
    return _remove_branch(common, branch)


def _remove_branch(common: str, branch: str) -> str | None:
    ref = f"refs/heads/{branch}"
    try:
        elsewhere = _git(common, "for-each-ref", "--format=%(refname)", f"--contains={ref}")
        if set(elsewhere.split("\n")) - {ref}:
            _git(common, "branch", "-D", branch)
            return None
        reason = "it has commits that are nowhere else"
    except ExternalError as error:
        reason = error.message
    return f"the branch {folded(branch, 200)} stays: {reason}"


def _reason_to_keep(path: str, branch: str) -> str | None:
    """What `git worktree remove` does not look at, None for nothing. Raises ExternalError."""
    main = main_of(path, branch)
    if main is None or os.path.realpath(path) != path:
        return "sm did not make it"
    # A session may name any directory as its worktree.
    common, own = _common(path), _git(path, "rev-parse", "--absolute-git-dir")
    top = _git(path, "rev-parse", "--show-toplevel")
    if top != path or own == common or not _is_main(main, common):
        return f"it is no worktree of the repository in {folded(main, 4096)}"
    worktrees = _git(path, "worktree", "list", "--porcelain").split("\n")
    if any(each.startswith(f"worktree {path}/") for each in worktrees):
        return "another worktree lies in it"
    ref = f"refs/heads/{branch}"
    if _git(path, "for-each-ref", "--format=%(refname)", ref) != ref:
        return f"there is no branch {branch}"
    if any(os.path.lexists(os.path.join(own, name)) for name in _UNDER_WAY):
        return "a rebase, merge, cherry-pick or bisect is under way in it"
    if _git(path, "rev-parse", "--symbolic-full-name", "HEAD") != ref and not _git(
        path, "for-each-ref", "--count=1", "--contains=HEAD", "refs/heads", "refs/tags"
    ):
        return "it has commits that are in no branch or tag"
    return None


def _is_main(main: str, common: str) -> bool:
    if common == os.path.join(main, ".git"):
        return True
    return _common(main) == common and os.path.realpath(_git(main, "rev-parse", "--show-toplevel")) == main


def _common(directory: str) -> str:
    """What all worktrees of the repository around `directory` share, without links."""
    return os.path.realpath(os.path.join(directory, _git(directory, "rev-parse", "--git-common-dir")))


def _sandboxed(client: Client, places: set[str]) -> bool:
    """Whether a sandboxed session could write to one of the places; as the daemon says of one that is removed."""
    teams = {w["slug"]: w["working_dir"] for w in client.get("/v1/workspaces", {"deleted": True})}
    reached = {
        os.path.realpath(directory)
        for session in client.get("/v1/sessions", {"archived": True})
        if session["effective_mode"] != "direct"
        for directory in (session["working_dir"], teams.get(session["workspace"]))
        if directory is not None
    }
    return any(overlap(directory, place) for directory in reached for place in places)


def directory_of(
    client: Client, working_dir: str | None, parent: str | None, workspace: str | None, session_id: str | None
) -> str:
    """Where a session with these options would work, as the daemon decides it."""
    from sm.client.http import session_path, workspace_path

    if working_dir is not None:
        directory = os.path.abspath(os.path.expanduser(working_dir))
    elif parent is not None:
        directory = str(client.get(session_path(parent))["working_dir"])
    elif session_id is not None:
        directory = str(client.get("/v1/me")["working_dir"])
    elif workspace is not None and workspace != "-":
        directory = str(client.get(workspace_path(workspace))["working_dir"])
    else:
        directory = os.getcwd()
    if not os.path.isdir(directory):
        raise InvalidPath(f"working directory {folded(directory, 200)} does not exist")
    return directory


def _hide(common: str) -> None:
    """Keep git from showing what lies below `.sm` as untracked; without touching a file that is committed."""
    exclude, rule = f"{common}/info/exclude", f"/{PLACE}/".encode()
    try:
        os.makedirs(f"{common}/info", exist_ok=True)
        with open(exclude, "a+b") as file:
            file.seek(0)
            before = file.read()
            if rule not in before.split(b"\n"):
                file.write((b"\n" if before and not before.endswith(b"\n") else b"") + rule + b"\n")
    except OSError as error:
        raise ExternalError(f"{exclude} cannot be written: {error.strerror}") from None


def _git(directory: str, *arguments: str) -> str:
    """What git prints. Raises ExternalError with what it says of its failure."""
    # Within a hook of git these would name another repository than the one around `directory`.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(
            ["git", *_ALWAYS, "-C", directory, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_WITHIN_S,
            check=False,
        )
    except FileNotFoundError:
        raise ExternalError("git is not installed", "sudo apt-get install git") from None
    except subprocess.TimeoutExpired:
        raise ExternalError(f"git {arguments[0]} took more than {_WITHIN_S} s") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"git ended with {done.returncode}"]
        why = next((each for each in said if each.startswith(("fatal: ", "error: "))), said[-1])
        raise ExternalError(folded(why.partition(": ")[2] or why, 300))
    return done.stdout.strip()
