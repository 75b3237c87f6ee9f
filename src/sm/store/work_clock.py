"""Measures work under way with a steady clock, so that a step of the system clock counts as no work."""

from collections.abc import Callable, Iterable

from sm.core.models import Session
from sm.core.work_time import seconds_between

_TOLERANCE_S = 90.0
"""Reports of agents come late, so the two clocks may differ by that much without a step."""


class WorkClock:
    """Knows when the sessions at work began, by a clock that nobody sets.

    `steady`: such a clock in seconds, as time.monotonic(); None: only the times of the sessions count.
    """

    def __init__(self, steady: Callable[[], float] | None) -> None:
        self._steady = steady
        self._starts: dict[str, tuple[str, float]] = {}
        """The `working_since` of each session at work, with the time of `steady` then."""

    def load(self, sessions: Iterable[Session], now: str) -> None:
        """Begin to measure the work that was under way when this daemon started."""
        for session in sessions:
            if session.working_since is not None:
                self.start(session, now)

    def start(self, session: Session, now: str) -> None:
        """Measure the work of a session that works since `working_since`."""
        if self._steady is not None and session.working_since is not None:
            before_s = seconds_between(session.working_since, now)
            self._starts[session.id] = session.working_since, self._steady() - before_s

    def forget(self, session_id: str) -> None:
        self._starts.pop(session_id, None)

    def elapsed_s(self, session: Session, at: str) -> float:
        """Seconds of work that is under way at the time `at`; 0: the session does not work."""
        if session.working_since is None:
            return 0.0
        by_wall = seconds_between(session.working_since, at) - seconds_between(at, session.working_since)
        known = self._starts.get(session.id)
        if self._steady is None or known is None or known[0] != session.working_since:
            return max(0.0, by_wall)
        steady = max(0.0, self._steady() - known[1])
        return steady if abs(by_wall - steady) > _TOLERANCE_S else max(0.0, by_wall)
