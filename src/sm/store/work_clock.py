"""Measures work and processes with a steady clock, so that a step of the system clock counts as no time."""

from collections.abc import Callable, Iterable

from sm.core.dataclass import dataclass
from sm.core.models import Session
from sm.core.timestamps import epoch_s
from sm.core.work_time import seconds_between


@dataclass(frozen=True, slots=True)
class _Start:
    since: str
    offset_s: float
    """The time of the system clock less that of the steady one: a step changes it."""
    future_s: float
    """Seconds from the start of the measurement to `since`: what lies in the future has not begun earlier."""


class WorkClock:
    """Knows when the sessions at work began, and how far the system clock was set since.

    `now`: the time of the system clock. `steady`: a clock that nobody sets in seconds, as time.monotonic(), or None if
    only the times of the sessions count.
    """

    def __init__(self, now: Callable[[], str], steady: Callable[[], float] | None) -> None:
        self._now = now
        self._steady = steady
        self._starts: dict[str, _Start] = {}
        """Of each measured session."""

    def since(self, session: Session) -> str | None:
        """The beginning of the measured time, or None if nothing is measured."""
        return session.working_since

    def load(self, sessions: Iterable[Session]) -> None:
        """Begin to measure what was under way when this daemon started."""
        for session in sessions:
            self.start(session)

    def start(self, session: Session) -> None:
        """Measure from `since` of the session."""
        since = self.since(session)
        if self._steady is not None and since is not None:
            future_s = seconds_between(self._now(), since)
            self._starts[session.id] = _Start(since, self._offset_s(self._steady), future_s)

    def follow(self, before: Session, after: Session) -> None:
        """Follow a change of a session."""
        if self.since(after) is None:
            self._starts.pop(after.id, None)
        elif self.since(before) != self.since(after):
            self.start(after)

    def elapsed_s(self, session: Session, at: str) -> float:
        """The measured seconds until the time `at`, or 0 if nothing is measured.

        Reports come late, so `at` may be earlier than now.
        """
        since = self.since(session)
        if since is None:
            return 0.0
        by_wall = seconds_between(since, at) - seconds_between(at, since)
        start = self._starts.get(session.id)
        if self._steady is None or start is None or start.since != since:
            return max(0.0, by_wall)
        step_s = self._offset_s(self._steady) - start.offset_s
        return max(0.0, by_wall + start.future_s - step_s)

    def _offset_s(self, steady: Callable[[], float]) -> float:
        return epoch_s(self._now()) - steady()


class RunClock(WorkClock):
    """Knows when the processes of sessions started, by the same clocks."""

    def since(self, session: Session) -> str | None:
        return session.started_at if session.exit is None else None
