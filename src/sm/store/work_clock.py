"""Measures work under way with a steady clock, so that a step of the system clock counts as no work."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sm.core.models import Session
from sm.core.timestamps import epoch_s
from sm.core.work_time import seconds_between


@dataclass(frozen=True, slots=True)
class _Start:
    working_since: str
    offset_s: float
    """The time of the system clock less that of the steady one: a step changes it."""
    future_s: float
    """Seconds from the start of the measurement to `working_since`: work in the future has not begun earlier."""


class WorkClock:
    """Knows when the sessions at work began, and how far the system clock was set since.

    `now`: the time of the system clock. `steady`: a clock that nobody sets in seconds, as time.monotonic(); None: only
    the times of the sessions count.
    """

    def __init__(self, now: Callable[[], str], steady: Callable[[], float] | None) -> None:
        self._now = now
        self._steady = steady
        self._starts: dict[str, _Start] = {}
        """Of each session at work."""

    def load(self, sessions: Iterable[Session]) -> None:
        """Begin to measure the work that was under way when this daemon started."""
        for session in sessions:
            if session.working_since is not None:
                self.start(session)

    def start(self, session: Session) -> None:
        """Measure the work of a session that works since `working_since`."""
        if self._steady is not None and session.working_since is not None:
            now = self._now()
            future_s = seconds_between(now, session.working_since)
            self._starts[session.id] = _Start(session.working_since, self._offset_s(self._steady), future_s)

    def forget(self, session_id: str) -> None:
        self._starts.pop(session_id, None)

    def elapsed_s(self, session: Session, at: str) -> float:
        """Seconds of work that is under way at the time `at`; 0: the session does not work.

        Reports come late, so `at` may be earlier than now.
        """
        if session.working_since is None:
            return 0.0
        by_wall = seconds_between(session.working_since, at) - seconds_between(at, session.working_since)
        start = self._starts.get(session.id)
        if self._steady is None or start is None or start.working_since != session.working_since:
            return max(0.0, by_wall)
        step_s = self._offset_s(self._steady) - start.offset_s
        return max(0.0, by_wall + start.future_s - step_s)

    def _offset_s(self, steady: Callable[[], float]) -> float:
        return epoch_s(self._now()) - steady()
