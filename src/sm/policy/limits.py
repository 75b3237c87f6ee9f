"""Decides whether one more child, process or message is allowed. Pure: `state.quota` supplies the numbers."""

from collections.abc import Callable, Iterable

from sm.core.dataclass import dataclass
from sm.core.labels import short_label
from sm.core.lifecycle import is_live
from sm.core.models import BridgeUser, Session, ancestors
from sm.core.timestamps import epoch_s
from sm.errors import LimitReached, RateLimited
from sm.operations.hints import Hint, Use
from sm.operations.session_operations import KILL, WAIT

RATE_WINDOW_S = 60.0
"""The period of the limits per minute."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Current numbers of live children and processes, without the new session."""

    children: int
    """Live children of the parent."""
    processes: int
    """Running and starting processes in the workspace, including those of ended sessions."""


def count_sessions(sessions: Iterable[Session], parent_id: str | None, workspace: str | None) -> Counts:
    """Count children and processes. Sessions without a workspace count as one workspace."""
    children = processes = 0
    for session in sessions:
        live = is_live(session.status)
        if live and session.parent_id == parent_id:
            children += 1
        if session.exit is None and session.workspace == workspace and (live or session.process is not None):
            processes += 1
    return Counts(children, processes)


def generation(parent: Session, find: Callable[[str], Session | None]) -> int:
    """The generation of a child of `parent`. Sessions of the operator are generation 0."""
    return 1 + sum(1 for _ in ancestors(parent, find))


def height(session_id: str, sessions: Iterable[Session]) -> int:
    parents = {session.id: session.parent_id for session in sessions}
    level, generations = {session_id}, -1
    while level:
        generations += 1
        level = {child for child, parent in parents.items() if parent in level and child != session_id}
        for child in level:
            del parents[child]
    return generations


def elapsed_s(before: str | None, at: str) -> float | None:
    """Seconds from `before` to `at` (ISO 8601). None without `before`, or when `before` is later: the clock was set."""
    if before is None:
        return None
    seconds = epoch_s(at) - epoch_s(before)
    return seconds if seconds >= 0 else None


def process_limit_error(workspace: str | None, processes: int, most: int) -> LimitReached | None:
    """The error for one more agent process in a workspace, if the limit is reached. Also applies to the operator."""
    if processes < most:
        return None
    where = "outside of workspaces" if workspace is None else f"in workspace {workspace}"
    return LimitReached(
        f"{processes} agent processes already run {where}, at most {most} are allowed",
        Hint("end one of them: ", Use(KILL, "SESSION"), "; or raise limits.max_per_workspace in config.yaml"),
    )


def child_limit_error(
    parent: Session, children: int, deepest: int, *, max_children: int, max_depth: int
) -> LimitReached | None:
    """The error for one more live child of this parent, if a limit is reached.

    `deepest`: the generation of the child, or of the lowest descendant of a moved session.
    """
    if deepest > max_depth:
        return LimitReached(
            f"a child of session {short_label(parent)} would be at depth {deepest}, at most {max_depth} is allowed",
            "choose a parent higher in the tree, or raise limits.max_depth in config.yaml",
        )
    if children >= max_children:
        return LimitReached(
            f"session {short_label(parent)} already has {children} live children, at most {max_children} are allowed",
            Hint(
                "wait for a child to end: ",
                Use(WAIT, "SESSION...", "--any", "--until", "ended"),
                "; or raise limits.max_children in config.yaml",
            ),
        )
    return None


def user_limit_error(user: BridgeUser, sessions: int, max_children: int) -> LimitReached | None:
    """The error for one more live session that a paired user starts, without a parent, if the limit is reached."""
    if sessions < max_children:
        return None
    return LimitReached(
        f"user {user.name} already has {sessions} live sessions, at most {max_children} are allowed",
        "wait for a session to end, or raise limits.max_children in config.yaml",
    )


def spawn_rate_error(
    parent: Session | BridgeUser, since_last_s: float | None, interval_s: float
) -> RateLimited | None:
    """The error for a child that is spawned too early after the previous child, which may have ended.

    `parent`: a paired user for a session without a parent.
    """
    if since_last_s is None or since_last_s >= interval_s:
        return None
    left_s = interval_s - since_last_s
    often = "one child per second" if interval_s == 1 else f"one child every {interval_s:g} seconds"
    return RateLimited(
        f"{_subject(parent)} may start {often} (limits.spawn_interval_s)",
        f"try again in {left_s:.2f} s",
        retry_after_s=left_s,
    )


def message_rate_error(
    sender: Session | BridgeUser, since_first_s: float | None, per_minute: int
) -> RateLimited | None:
    """The error for a message over the rate limit.

    `since_first_s`: age of the first of the last `per_minute` messages, or None if fewer were sent.
    """
    left_s = _left_s(since_first_s)
    if left_s is None:
        return None
    return RateLimited(
        f"{_subject(sender)} may send {per_minute} messages per minute (limits.messages_per_minute)",
        f"try again in {left_s:.2f} s",
        retry_after_s=left_s,
    )


def operator_message_rate_error(
    sender: Session, since_first_s: float | None, per_minute: int
) -> RateLimited | None:
    """The error for a message to the operator over its own rate limit. `since_first_s`: as for messages."""
    left_s = _left_s(since_first_s)
    if left_s is None:
        return None
    return RateLimited(
        f"{_subject(sender)} may send the operator {per_minute} messages per minute"
        " (limits.operator_messages_per_minute)",
        f"try again in {left_s:.2f} s",
        retry_after_s=left_s,
    )


def report_rate_error(session: Session, since_first_s: float | None, per_minute: int) -> RateLimited | None:
    """The error for a checkpoint or a note over the rate limit. `since_first_s`: as for messages."""
    left_s = _left_s(since_first_s)
    if left_s is None:
        return None
    return RateLimited(
        f"session {short_label(session)} may report {per_minute} checkpoints and notes per minute"
        " (limits.reports_per_minute)",
        f"try again in {left_s:.2f} s",
        retry_after_s=left_s,
    )


def _subject(caller: Session | BridgeUser) -> str:
    return f"user {caller.name}" if isinstance(caller, BridgeUser) else f"session {short_label(caller)}"


def _left_s(since_first_s: float | None) -> float | None:
    """Seconds until a limit per minute allows one more, or None if it is allowed now."""
    if since_first_s is None or since_first_s >= RATE_WINDOW_S:
        return None
    return RATE_WINDOW_S - since_first_s
