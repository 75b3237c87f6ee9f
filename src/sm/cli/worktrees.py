"""Follows the worktree of `sm spawn --worktree`, and asks a person about the work that a removal would delete."""

import sys
from collections.abc import Mapping
from contextlib import suppress

import click

from sm.capabilities.worktrees.reviewed_trees import forget_trees
from sm.capabilities.worktrees.trees import clean
from sm.capabilities.worktrees.unsaved_work import UnsavedWork, unsaved_work_of
from sm.cli.selection import agrees
from sm.client.http import Client, decode_answer, session_path
from sm.core.lines import JsonObject, line
from sm.core.session_lines import name_to_type
from sm.core.statuses import Status
from sm.errors import AgentStartFailed, IllegalState, NotPermitted, SmError
from sm.wire import encode

__all__ = ["UnsavedWork", "check_discard", "clean", "follow_worktree", "forget_reviews", "unsaved_work_of"]

_LOOK_S = 1


def follow_worktree(
    client: Client, body: Mapping[str, object], key: str, answer: str, timeout_s: float
) -> str:
    """Wait until the worktree of a new session is made and its agent runs. On a terminal, show how far it is.

    `body`, `key`, `answer`: of the request that has started the session. Ctrl-C ends the session, and nothing of its
    worktree stays. Raises the errors of a spawn. A session whose worktree cannot be made is removed: the caller has its
    error.
    """
    started = decode_answer(answer)
    if started["status"] != Status.SPAWNED:
        return answer
    name, shown = name_to_type(started), 0
    try:
        while (tree := _tree(client, started["session_id"])) is not None and tree["state"] != "made":
            if sys.stderr.isatty():
                text = f"{name}: {line(tree['step'])}"
                click.echo(f"\r{text}{' ' * (shown - len(text))}", nl=False, err=True)
                shown = len(text)
    except KeyboardInterrupt:
        client.post(f"{session_path(started['session_id'])}/kill", {})
        raise
    finally:
        if shown:
            click.echo(f"\r{' ' * shown}\r", nl=False, err=True)
    # The same request again: its answer is that of the start.
    try:
        now = decode_answer(client.text("POST", "/v1/sessions", body=body, key=key, timeout_s=timeout_s))
    except AgentStartFailed:
        if tree is None:
            _forget(client, started["session_id"])
        raise
    if now["status"] == Status.KILLED and now["pid"] is None:
        raise AgentStartFailed(f"session {name} was ended before it started")
    if tree is None:
        return encode({**started, **now})
    made = {name: tree[name] for name in ("copied_files", "copied_bytes", "linked")}
    warnings = [*started["warnings"], *now["warnings"], *tree["notes"]]
    return encode({**started, **now, "worktree_files": made, "warnings": warnings})


def _forget(client: Client, session_id: str) -> None:
    """Remove a session that has failed before it had a directory. It stays if the caller may not remove it."""
    with suppress(SmError):
        client.post(f"{session_path(session_id)}/remove", {})


def _tree(client: Client, session_id: str) -> JsonObject | None:
    trees: list[JsonObject] = client.get("/v1/worktrees", {"session": session_id, "wait_s": _LOOK_S})
    return trees[0] if trees else None


def forget_reviews(client: Client, session: JsonObject, working_dir: str | None) -> None:
    """Delete what `sm review` has kept in the repository of a removed session. `session`: the answer to its removal.

    `working_dir`: the one of the session, if it is known.
    """
    if session["effective_mode"] == "direct":
        forget_trees(client, session["removed"], filter(None, (session["git_directory"], working_dir)))


def check_discard(work: UnsavedWork, *, by_session: bool, yes: bool) -> None:
    """Ask a person at a terminal whether `--discard` may delete the work. Raises IllegalState and NotPermitted."""
    if by_session:
        raise NotPermitted(f"only the operator may delete {work}", "ask the operator")
    if work.unknown is not None or yes:  # the worktree that sm cannot look into stays
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise IllegalState(
            f"--discard would delete {work}",
            f"to delete it: sm rm {name_to_type(work.session)} --discard --yes",
        )
    if not agrees(f"Delete {work}?"):
        raise IllegalState("cancelled")
