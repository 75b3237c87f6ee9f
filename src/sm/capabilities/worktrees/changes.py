"""Compares the worktrees of the sessions in a digest with where they began, in limited time."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field

from sm.capabilities.worktrees.git.calls import git, time_limit
from sm.capabilities.worktrees.work import work_of
from sm.client.http import Client, session_path
from sm.core.dataclass import dataclass
from sm.core.lines import JsonObject
from sm.errors import NotFound, NotPermitted, SmError

_START_S = 6.0
"""No comparison begins later, so that all of them together take at most _START_S + _ONE_S."""
_ONE_S = 4.0


@dataclass(frozen=True, slots=True)
class WorktreeChanges:
    """`changes`: of the worktrees with any. `not_compared`: the sessions whose worktree was not compared, and why."""

    changes: list[JsonObject] = field(default_factory=list)
    not_compared: list[JsonObject] = field(default_factory=list)


def _listed(client: Client, session_ids: Sequence[str]) -> Iterator[JsonObject]:
    """The sessions with these ids. Most are on the first page of the list."""
    listed = {s["session_id"]: s for s in client.get("/v1/sessions", {"archived": True})}
    for session_id in session_ids:
        with suppress(NotFound):  # removed meanwhile
            yield listed.get(session_id) or client.get(session_path(session_id))


def worktree_changes(client: Client, digest: JsonObject) -> WorktreeChanges:
    """The changed files and new commits of the sessions with a worktree, those of live sessions first."""
    entries = [*digest["live"], *digest["ended"]]
    if not entries:
        return WorktreeChanges()
    worktrees = {
        session["session_id"]: session["worktree"]["path"]
        for session in _listed(client, [entry["session_id"] for entry in entries])
        if session["worktree"]
    }
    # A worktree that was removed has no changes.
    present = [e for e in entries if os.path.lexists(worktrees.get(e["session_id"], ""))]
    return compare_all(present, lambda entry: _change(client, entry))


def compare_all(
    entries: Iterable[JsonObject],
    compare: Callable[[JsonObject], JsonObject | None],
    clock: Callable[[], float] = time.monotonic,
) -> WorktreeChanges:
    """Call `compare` for the entry of each session. None means no change, an SmError is the reason of a failure."""
    found, began = WorktreeChanges(), clock()
    for entry in entries:
        reason = None
        if clock() - began > _START_S:
            reason = f"no comparison begins after {_START_S:.0f} s"
        else:
            try:
                if (change := compare(entry)) is not None:
                    found.changes.append(change)
            except SmError as error:
                reason = _reason(error)
        if reason is not None:
            found.not_compared.append(
                {"session_id": entry["session_id"], "label": entry["label"], "reason": reason}
            )
    return found


def _reason(error: SmError) -> str:
    if isinstance(error, NotPermitted):  # without the path, so that all such worktrees have the same reason
        return "a sandboxed session may have changed the programs that git runs there"
    return error.message


def _change(client: Client, entry: JsonObject) -> JsonObject | None:
    """The difference of an entry, None without one. Raises SmError when git cannot compare, or not in time."""
    with time_limit(_ONE_S):
        git("/", "version")  # `work_of` would take a missing git for a missing repository
        work = work_of(client, entry["session_id"])
        files, commits = work.files(), work.commits()
    if not files and not commits:
        return None
    return {
        "session_id": entry["session_id"],
        "label": entry["label"],
        "branch": work.branch,
        "commits": commits,
        "files": len(files),
        "added": sum(file["added"] or 0 for file in files),
        "deleted": sum(file["deleted"] or 0 for file in files),
    }
