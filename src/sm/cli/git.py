"""Runs git for commands.

Git runs here, as the caller, and never in the daemon: a repository's configuration names programs for git to run, and
an agent may be able to write it. Git does not run at all where a sandboxed agent may have written that configuration.
"""

import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from sm.client.http import Client
from sm.core.text import folded
from sm.core.worktrees import do_overlap
from sm.errors import ExternalError

_TIMEOUT_S = 120
_GIT_OPTIONS = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"),
    *("-c", "status.showUntrackedFiles=normal"),  # `worktree remove` goes by what status shows
)
_OPERATION_FILES = (
    "rebase-merge", "rebase-apply", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "sequencer", "BISECT_LOG",
)  # fmt: skip
"""Files in a worktree's git directory during an unfinished operation (git's path.c, wt-status.c)."""

_limit: ContextVar[tuple[float, float] | None] = ContextVar("_limit", default=None)
"""The limit of `time_limit` in seconds, and the time of the monotonic clock at which it is over."""


@contextmanager
def time_limit(limit_s: float) -> Iterator[None]:
    """Limit the time of all calls of `git` inside the block together."""
    token = _limit.set((limit_s, time.monotonic() + limit_s))
    try:
        yield
    finally:
        _limit.reset(token)


def git(directory: str, *arguments: str, variables: Mapping[str, str] | None = None) -> str:
    """Run git and return its output. Raises ExternalError with git's own message."""
    limit_s, end = _limit.get() or (_TIMEOUT_S, time.monotonic() + _TIMEOUT_S)
    try:
        done = subprocess.run(
            command_line(directory, arguments),
            env={**environment(), **(variables or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=max(0.0, end - time.monotonic()),
            check=False,
        )
    except FileNotFoundError:
        raise ExternalError("git is not installed", "sudo apt-get install git") from None
    except subprocess.TimeoutExpired:
        raise ExternalError(f"git {arguments[0]} did not finish within {limit_s:g} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"git exited with code {done.returncode}"]
        why = next((line for line in lines if line.startswith(("fatal: ", "error: "))), lines[-1])
        raise ExternalError(folded(why.partition(": ")[2] or why, 300))
    return done.stdout.strip()


def command_line(directory: str, arguments: Sequence[str]) -> list[str]:
    return ["git", *_GIT_OPTIONS, "-C", directory, *arguments]


def environment() -> dict[str, str]:
    """The caller's environment without the variables that select another repository, as git sets them in a hook."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return mine | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}


def common_of(directory: str) -> str:
    """Return the real path of the git directory that all worktrees of a repository share."""
    return os.path.realpath(os.path.join(directory, git(directory, "rev-parse", "--git-common-dir")))


def is_in_operation(git_directory: str) -> bool:
    """True during a rebase, merge, cherry-pick, revert or bisect. `git_directory`: that of one worktree."""
    return any(os.path.lexists(os.path.join(git_directory, name)) for name in _OPERATION_FILES)


def is_sandboxed(client: Client, paths: set[str]) -> bool:
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
