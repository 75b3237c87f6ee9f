"""Time that a session has worked: its status is running, and it is not paused. Pure."""

from dataclasses import replace
from typing import Protocol

from sm.core.models import Session
from sm.core.statuses import Status
from sm.core.timestamps import epoch_s


class Timed(Protocol):
    """A session, or what is stored of a removed one."""

    @property
    def created_at(self) -> str: ...
    @property
    def started_at(self) -> str | None: ...


def elapsed_s(session: Timed, until: str, worked: float) -> int:
    """Whole seconds from the start of the session's process until `until`, at least the seconds that it `worked`.

    A restart or a restore begins another process, so this keeps the work of the earlier ones.
    """
    return int(max(seconds_between(session.started_at or session.created_at, until), worked))


def worked_s(session: Session, now: str) -> float:
    """Seconds of work of the session until `now`, with the work that is under way."""
    if session.working_since is None:
        return session.worked_s
    return session.worked_s + seconds_between(session.working_since, now)


def track_work(before: Session, after: Session, at: str, elapsed_s: float | None = None) -> Session:
    """Add the time of work that ends with a change to `after`, and note the start of work that begins with it.

    `at`: the time of the change (ISO 8601, UTC). `elapsed_s`: the seconds since `working_since`, if a better clock
    than that of the wall has measured them.
    """
    stopped = after.paused is not None and not after.paused.soft  # a soft pause lets it finish its turn
    works = after.status is Status.RUNNING and not stopped
    if works == (before.working_since is not None):
        return after
    if works:
        return replace(after, working_since=at)
    worked = worked_s(before, at) if elapsed_s is None else before.worked_s + elapsed_s
    return replace(after, worked_s=worked, working_since=None)


def seconds_between(since: str, until: str) -> float:
    """Seconds from one time to another, never negative; 0 for an unreadable time."""
    try:
        return max(0.0, epoch_s(until) - epoch_s(since))  # the clock may have been set back
    except ValueError:
        return 0.0
