"""Decides whether one more child, process or message is allowed. Pure: `state.quota` brings the numbers."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from sm.core.lifecycle import is_live
from sm.core.models import Session, ancestors
from sm.errors import LimitReached, RateLimited

MESSAGES_WINDOW_S = 60.0


@dataclass(frozen=True, slots=True)
class Counts:
    """How much there is already, beside the session that is to come."""

    children: int
    """Live ones of its parent."""
    processes: int
    """In its workspace: those that run or are about to, of ended sessions too."""


def counted(sessions: Iterable[Session], parent_id: str | None, workspace: str | None) -> Counts:
    """Sessions without a workspace count as one."""
    children = processes = 0
    for session in sessions:
        live = is_live(session.status)
        if live and session.parent_id == parent_id:
            children += 1
        if session.exit is None and session.workspace == workspace and (live or session.process is not None):
            processes += 1
    return Counts(children, processes)


def generation(parent: Session, find: Callable[[str], Session | None]) -> int:
    """How far below the operator's sessions, which are generation 0, a child of `parent` stands."""
    return 1 + sum(1 for _ in ancestors(parent, find))


def height(session_id: str, sessions: Iterable[Session]) -> int:
    """How many generations there are below a session."""
    parents = {session.id: session.parent_id for session in sessions}
    level, found = {session_id}, -1
    while level:
        found += 1
        level = {child for child, parent in parents.items() if parent in level and child != session_id}
        for child in level:
            del parents[child]
    return found


def elapsed_s(before: str | None, at: str) -> float | None:
    """From `before` to `at`, ISO 8601 both. None when it never was, or lies ahead: then somebody has set the clock."""
    if before is None:
        return None
    seconds = (datetime.fromisoformat(at) - datetime.fromisoformat(before)).total_seconds()
    return seconds if seconds >= 0 else None


def refused_process(workspace: str | None, processes: int, most: int) -> LimitReached | None:
    """What keeps one more agent process from running in a workspace; also the operator's."""
    if processes < most:
        return None
    where = "outside of workspaces" if workspace is None else f"in workspace {workspace}"
    return LimitReached(
        f"{processes} agent processes run {where}, at most {most} are allowed",
        "sm kill ends one, also that of an ended session; limits.max_per_workspace sets how many",
    )


def refused_place(
    parent_id: str, children: int, deepest: int, *, max_children: int, max_depth: int
) -> LimitReached | None:
    """What keeps a live session from being a child of this parent, as generation `deepest`, or reaching down to it."""
    if deepest > max_depth:
        return LimitReached(
            f"a child of session {parent_id} is generation {deepest}, at most {max_depth} are allowed",
            "a session above it may start it; limits.max_depth sets how many",
        )
    if children >= max_children:
        return LimitReached(
            f"session {parent_id} has {children} live children, at most {max_children} are allowed",
            "sm wait for one of them, or sm kill it; limits.max_children sets how many",
        )
    return None


def refused_pace(parent_id: str, since_last_s: float | None, interval_s: float) -> RateLimited | None:
    """What keeps a parent from having one more child now, `since_last_s` after the newest, whatever became of that."""
    if since_last_s is None or since_last_s >= interval_s:
        return None
    left_s = interval_s - since_last_s
    often = "one child per second" if interval_s == 1 else f"one child every {interval_s:g} seconds"
    return RateLimited(
        f"{often} (limits.spawn_interval_s)",
        f"session {parent_id} may have the next in {left_s:.2f} s",
        retry_after_s=left_s,
    )


def refused_message(sender: str, since_first_s: float | None, per_minute: int) -> RateLimited | None:
    """What keeps a session from sending now: it sent as many as a minute may have, the first `since_first_s` ago."""
    if since_first_s is None or since_first_s >= MESSAGES_WINDOW_S:
        return None
    left_s = MESSAGES_WINDOW_S - since_first_s
    return RateLimited(
        f"{per_minute} messages per minute (limits.messages_per_minute)",
        f"session {sender} may send the next in {left_s:.2f} s",
        retry_after_s=left_s,
    )
