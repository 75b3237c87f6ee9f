"""Git worktrees for sessions: `sm spawn --worktree` makes one, `sm rm` removes it.

Git runs here, as the caller, and never in the daemon: a repository's own configuration names programs that git runs,
and an agent may be able to write it.
"""

import os
import re
import subprocess
from collections.abc import Mapping
from typing import Any

from sm.client import Client
from sm.errors import OutsideFailed, PathRefused, SandboxUnavailable, SmError, UsageError
from sm.text import folded

_PLACE = ".sm/worktrees"
"""Below the repository: claude trusts what lies in a directory that it trusts, and a container has it mounted."""
_WITHIN_S = 120
_QUIET = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")


class Worktree:
    """One that was made: `path` absolute, `branch` its own, `directory` where the session works in it."""

    __slots__ = ("branch", "directory", "path")

    def __init__(self, path: str, branch: str, directory: str) -> None:
        self.path = path
        self.branch = branch
        self.directory = directory

    def taken_back(self, error: SmError) -> None:
        """Remove it after a spawn that failed with `error`, unless there may be a session that works in it."""
        if error.http_status >= 500 and not isinstance(error, SandboxUnavailable):
            return  # it was started and has failed, or nobody knows
        try:
            common = os.path.join(self.path, _git(self.path, "rev-parse", "--git-common-dir"))
            _git(common, *_QUIET, "worktree", "remove", "--force", self.path)
            _git(common, "branch", "-D", self.branch)
        except OutsideFailed:
            return  # `git worktree list` shows what is left


_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def make(directory: str, name: str) -> Worktree:
    """A worktree beside the others of the repository around `directory`, on a new branch from what is checked out.

    Raises UsageError where there is no repository, or one with a worktree or branch of that name.
    """
    if not _NAME.fullmatch(name) or ".." in name:
        raise UsageError(f"name {folded(name, 80)!r} is not usable for a branch")
    try:
        top = _git(directory, "rev-parse", "--show-toplevel")
    except OutsideFailed as error:
        raise UsageError(f"{folded(directory, 200)} is in no git repository: {error.message}") from None
    if not top:
        raise UsageError(f"{folded(directory, 200)} is in no git worktree")
    common = os.path.join(directory, _git(directory, "rev-parse", "--git-common-dir"))
    common = os.path.realpath(common)
    main = os.path.dirname(common) if os.path.basename(common) == ".git" else os.path.realpath(top)
    branch, path = f"sm/{name}", f"{main}/{_PLACE}/{name}"
    if os.path.lexists(path):
        raise UsageError(f"there is a worktree {path} already", "choose another --name")
    _hide(common)
    try:
        _git(directory, *_QUIET, "worktree", "add", "--quiet", "-b", branch, path, "HEAD")
    except OutsideFailed as error:
        raise UsageError(f"no worktree for {name}: {error.message}", "choose another --name") from None
    inside = os.path.relpath(os.path.realpath(directory), os.path.realpath(top))
    works = os.path.normpath(os.path.join(path, inside))
    return Worktree(path, branch, works if os.path.isdir(works) else path)


def clean(client: Client, session: Mapping[str, Any]) -> str | None:
    """Remove the worktree of a session that was removed; what is to be said of it, None for nothing.

    `session` is the daemon's answer to its removal.

    Left alone when something in it is uncommitted, or another session works there. The branch stays while it has
    commits that are nowhere else.
    """
    path, branch = str(session["worktree"]["path"]), str(session["worktree"]["branch"])
    shown = folded(path, 4096)
    if not os.path.isdir(path):
        return None
    if session["effective_mode"] != "direct":
        return f"the worktree {shown} stays: who worked there may have changed what git runs in it"
    users = [
        other["session_id"]
        for other in client.get("/v1/sessions", {"archived": True})
        if _works_in(other, path)
    ]
    if users:
        return f"the worktree {shown} stays: session {users[0]} works there"
    try:
        common = os.path.join(path, _git(path, "rev-parse", "--git-common-dir"))
        _git(common, *_QUIET, "worktree", "remove", path)
    except OutsideFailed as error:
        return f"the worktree {shown} stays: {error.message}"
    try:
        _git(common, "branch", "-d", branch)
    except OutsideFailed:
        return f"the branch {folded(branch, 200)} stays: it has commits that are nowhere else"
    return None


def _works_in(session: Mapping[str, Any], path: str) -> bool:
    directory = session["working_dir"]
    lives = session["pid"] is not None and session["exit_code"] is None and session["exit_signal"] is None
    return lives and (directory == path or directory.startswith(path + "/"))


def directory_of(
    client: Client, working_dir: str | None, workspace: str | None, session_id: str | None
) -> str:
    """Where a session with these options would work, as the daemon decides it."""
    from sm.client import workspace_path

    if working_dir is not None:
        directory = os.path.abspath(os.path.expanduser(working_dir))
    elif session_id is not None:
        directory = str(client.get("/v1/me")["working_dir"])
    elif workspace is not None and workspace != "-":
        directory = str(client.get(workspace_path(workspace))["working_dir"])
    else:
        directory = os.getcwd()
    if not os.path.isdir(directory):
        raise PathRefused(f"working directory {folded(directory, 200)} does not exist")
    return directory


def _hide(common: str) -> None:
    """Keep git from showing what lies below `.sm` as untracked; without touching a file that is committed."""
    exclude = f"{common}/info/exclude"
    rule = "/.sm/worktrees/"
    try:
        with open(exclude, encoding="utf-8", errors="replace") as file:
            if rule in file.read().split("\n"):
                return
    except OSError:
        pass
    try:
        os.makedirs(f"{common}/info", exist_ok=True)
        with open(exclude, "a", encoding="utf-8") as file:
            file.write(f"{rule}\n")
    except OSError as error:
        raise OutsideFailed(f"{exclude} cannot be written: {error.strerror}") from None


def _git(directory: str, *arguments: str) -> str:
    """What git prints. Raises OutsideFailed with its last line."""
    # Within a hook of git these would name another repository than the one around `directory`.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(
            ["git", "-C", directory, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_WITHIN_S,
            check=False,
        )
    except FileNotFoundError:
        raise OutsideFailed("git is not installed", "sudo apt-get install git") from None
    except subprocess.TimeoutExpired:
        raise OutsideFailed(f"git {arguments[0]} took more than {_WITHIN_S} s") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"git ended with {done.returncode}"]
        raise OutsideFailed(folded(said[-1].removeprefix("fatal: ").removeprefix("error: "), 300))
    return done.stdout.strip()
