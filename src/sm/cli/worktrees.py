"""Creates git worktrees for `sm spawn --worktree` and removes them for `sm rm`.

Git runs here, as the caller, and never in the daemon: a repository's configuration names programs for git to run, and
an agent may be able to write it. Git does not run at all where a sandboxed agent may have written that configuration.
"""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sm.client.http import Client, session_path, workspace_path
from sm.core.text import folded
from sm.core.worktrees import PLACE, do_overlap, is_name, outer_repository, path_and_branch, repository_of
from sm.errors import ExternalError, InvalidPath, NotPermitted, SandboxUnavailable, SmError, UsageError

_TIMEOUT_S = 120
_GIT_OPTIONS = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"),
    *("-c", "status.showUntrackedFiles=normal"),  # `worktree remove` goes by what status shows
)
_OPERATION_FILES = (
    "rebase-merge", "rebase-apply", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "sequencer", "BISECT_LOG",
)  # fmt: skip
"""Files in a worktree's git directory during an unfinished operation (git's path.c, wt-status.c)."""


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
            sessions = client.get("/v1/sessions", {"archived": True})
            if any((session["worktree"] or {}).get("path") == self.path for session in sessions):
                return
            _git(self.common, "worktree", "remove", self.path)
            _git(self.common, "update-ref", "-d", f"refs/heads/{self.branch}", self.start)
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
        top = _git(directory, "rev-parse", "--show-toplevel")
    except ExternalError as error:
        raise UsageError(f"{folded(directory, 200)} is not in a git repository: {error.message}") from None
    if not top:
        raise UsageError(f"{folded(directory, 200)} is not in a git worktree")
    common, top = _common(directory), os.path.realpath(top)
    main = os.path.dirname(common) if os.path.basename(common) == ".git" else outer_repository(top)
    path, branch = path_and_branch(main, name)
    if os.path.lexists(path):
        raise UsageError(f"worktree {path} already exists", "choose another --name")
    if os.path.realpath(path) != path:
        raise UsageError(f"cannot create worktree {name}: the path {main}/{PLACE} contains a link")
    if _sandboxed(client, {common, main, top}):
        raise NotPermitted(
            f"a sandboxed session may have changed the programs that git runs in {folded(main, 200)}",
            "create a worktree yourself, then: sm spawn AGENT_TYPE --working-dir PATH",
        )
    _hide(common)
    try:
        start = _git(directory, "rev-parse", "--verify", "HEAD")
        _git(directory, "worktree", "add", "--quiet", "--no-track", "-b", branch, path, start)
    except ExternalError as error:
        hint = "choose another --name" if "already exists" in error.message else None
        raise UsageError(f"cannot create worktree {name}: {error.message}", hint) from None
    inside = os.path.normpath(os.path.join(path, os.path.relpath(os.path.realpath(directory), top)))
    return Worktree(path, branch, inside if os.path.isdir(inside) else path, common, start)


def clean(session: Mapping[str, Any]) -> str | None:
    """Remove the worktree and branch of a removed session. Return a warning about the part that stays, or None.

    `session` is the daemon's answer to the removal. The worktree stays when another session works there, or when its
    removal would destroy data other than ignored files. The branch stays while it has commits that no other ref has.
    """
    path, branch = str(session["worktree"]["path"]), str(session["worktree"]["branch"])
    reason: str | None
    try:
        if session["sandboxed"]:
            reason = "a sandboxed session may have changed the programs that git runs in it"
        elif session["used"]:
            reason = "another session works there"
        elif not os.path.lexists(path):
            return _prune(repository_of(path, branch), branch)
        else:
            reason = _reason_to_keep(path, branch)
        if reason is None:
            common = _common(path)
            _git(common, "worktree", "remove", path)
    except ExternalError as error:
        reason = error.message
    if reason is not None:
        return f"kept the worktree {folded(path, 4096)}: {reason}"
    return _remove_branch(common, branch)


def _prune(main: str | None, branch: str) -> str | None:
    """Make git forget a worktree whose directory is gone, and remove its branch. Return a warning, or None."""
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
        containing = _git(common, "for-each-ref", "--format=%(refname)", f"--contains={ref}")
        if set(containing.split("\n")) - {ref}:
            _git(common, "branch", "-D", branch)
            return None
        reason = "it has commits that no other branch or tag contains"
    except ExternalError as error:
        reason = error.message
    return f"kept the branch {folded(branch, 200)}: {reason}"


def _reason_to_keep(path: str, branch: str) -> str | None:
    """Check for data that `git worktree remove` would destroy. Return the reason to keep it, or None.

    Raises ExternalError.
    """
    main = repository_of(path, branch)
    if main is None or os.path.realpath(path) != path:
        return "sm did not create this worktree"
    # A caller of the API may name any directory as a session's worktree.
    common, own = _common(path), _git(path, "rev-parse", "--absolute-git-dir")
    top = _git(path, "rev-parse", "--show-toplevel")
    if top != path or own == common or not _is_main(main, common):
        return f"it is not a worktree of the repository in {folded(main, 4096)}"
    worktrees = _git(path, "worktree", "list", "--porcelain").split("\n")
    if any(entry.startswith(f"worktree {path}/") for entry in worktrees):
        return "it contains another worktree"
    ref = f"refs/heads/{branch}"
    if _git(path, "for-each-ref", "--format=%(refname)", ref) != ref:
        return f"there is no branch {branch}"
    if any(os.path.lexists(os.path.join(own, name)) for name in _OPERATION_FILES):
        return "a rebase, merge, cherry-pick or bisect is in progress in it"
    if _git(path, "rev-parse", "--symbolic-full-name", "HEAD") != ref and not _git(
        path, "for-each-ref", "--count=1", "--contains=HEAD", "refs/heads", "refs/tags"
    ):
        return "it has commits that no branch or tag contains"
    return None


def _is_main(main: str, common: str) -> bool:
    if common == os.path.join(main, ".git"):
        return True
    return _common(main) == common and os.path.realpath(_git(main, "rev-parse", "--show-toplevel")) == main


def _common(directory: str) -> str:
    """Return the real path of the git directory that all worktrees of a repository share."""
    return os.path.realpath(os.path.join(directory, _git(directory, "rev-parse", "--git-common-dir")))


def _sandboxed(client: Client, paths: set[str]) -> bool:
    """True when a sandboxed session could write to one of the paths. The daemon decides `sandboxed` the same way."""
    workspaces = {w["slug"]: w["working_dir"] for w in client.get("/v1/workspaces", {"deleted": True})}
    writable = {
        os.path.realpath(directory)
        for session in client.get("/v1/sessions", {"archived": True})
        if session["effective_mode"] != "direct"
        for directory in (session["working_dir"], workspaces.get(session["workspace"]))
        if directory is not None
    }
    return any(do_overlap(directory, path) for directory in writable for path in paths)


def directory_of(
    client: Client, working_dir: str | None, parent: str | None, workspace: str | None, session_id: str | None
) -> str:
    """Find the working directory that the daemon would choose for these options. Raises InvalidPath."""
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


def _git(directory: str, *arguments: str) -> str:
    """Run git and return its output. Raises ExternalError with git's own message."""
    # In a git hook, GIT_DIR and others would select another repository than the one around `directory`.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(
            ["git", *_GIT_OPTIONS, "-C", directory, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        raise ExternalError("git is not installed", "sudo apt-get install git") from None
    except subprocess.TimeoutExpired:
        raise ExternalError(f"git {arguments[0]} did not finish within {_TIMEOUT_S} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"git exited with code {done.returncode}"]
        why = next((line for line in lines if line.startswith(("fatal: ", "error: "))), lines[-1])
        raise ExternalError(folded(why.partition(": ")[2] or why, 300))
    return done.stdout.strip()
