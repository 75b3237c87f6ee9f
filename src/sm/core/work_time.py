"""Time that a session has worked: its status is running, and it is not paused. Pure."""

from dataclasses import replace

from sm.core.models import Session
from sm.core.statuses import Status
from sm.core.timestamps import epoch_s


def worked_s(session: Session, now: str) -> float:
    """Seconds of work of the session until `now`, with the work that is under way."""
    if session.working_since is None:
        return session.worked_s
    return session.worked_s + _seconds(session.working_since, now)


def track_work(before: Session, after: Session, at: str) -> Session:
    """Add the time of work that ends with a change to `after`, and note the start of work that begins with it.

    `at`: the time of the change (ISO 8601, UTC).
    """
    works = after.status is Status.RUNNING and after.paused is None
    if works == (before.working_since is not None):
        return after
    if works:
        return replace(after, working_since=at)
    return replace(after, worked_s=worked_s(before, at), working_since=None)


def _seconds(since: str, until: str) -> float:
    try:
        return max(0.0, epoch_s(until) - epoch_s(since))  # the clock may have been set back
    except ValueError:
        return 0.0
