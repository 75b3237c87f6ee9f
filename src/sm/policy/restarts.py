"""Decides whether a session whose process has ended is started again, and when. Pure: facts and a time in."""

from dataclasses import dataclass, replace

from sm.core.lifecycle import is_live
from sm.core.models import Exit, Session, Signal
from sm.core.restarts import RestartPolicy, Restarts
from sm.core.states import SignalKind
from sm.core.statuses import Status
from sm.core.text import folded
from sm.core.timestamps import epoch_s, later
from sm.errors import UsageError

FIRST_S = 5.0
"""The delay of the first restart. It doubles with each further restart."""
LONGEST_S = 300.0
WINDOW_S = 900.0
"""The time in which `Restarts.max` restarts are tried."""
GOOD_S = 600.0
"""After a process that ran this long, the next crash is the first one again."""
_SIGINT = 2
_CTRL_C = (Exit(None, _SIGINT), Exit(128 + _SIGINT))
"""The second one is of a shell, or of a program that handles the signal and reports it like a shell."""
_FAILURES = (SignalKind.CRASHED, SignalKind.TERMINAL_LOST)


@dataclass(frozen=True, slots=True)
class Restart:
    """Start the session again."""

    after_s: float
    restarts: Restarts
    """The restarts of the session from now on, with this one."""

    @property
    def words(self) -> str:
        """`restart 2 of 3`."""
        return numbered(self.restarts)


@dataclass(frozen=True, slots=True)
class GiveUp:
    """End the session: too many restarts have failed."""

    reason: str


def numbered(restarts: Restarts) -> str:
    """`restart 2 of 3`, for the newest restart."""
    return f"restart {restarts.count} of {restarts.max}"


def after_end(
    session: Session, signal: Signal, exit: Exit, now: str, ran_s: float, *, closed: bool = False
) -> Restart | GiveUp | None:
    """Decide what follows the end of a session's process. None: the session ends too.

    `session`: before the end. `ran_s`: how long its process ran. `closed`: somebody closed its terminal. A process
    counts as stopped on purpose, and is not started again, if it exited with code 0, if it ended by Ctrl-C (SIGINT, or
    exit code 130), if it was killed, or if its terminal was closed. An adopted agent belongs to a person.
    """
    before = session.restarts
    if (
        before is None
        or before.max == 0
        or before.next_at is not None
        or signal.kind not in _FAILURES
        or closed
    ):
        return None
    if not is_live(session.status) or session.paused is not None or session.token_hash is None:
        return None
    if exit.code == 0 or exit in _CTRL_C:
        return None
    if ran_s >= GOOD_S:
        before = replace(before, times=(), row=0)
    if before.row == 0 and session.status in (Status.SPAWNED, Status.STARTING):
        return None  # a bad start: the agent has never been ready
    # If the clock was set while the process ran, the times of earlier crashes move with it.
    step_s = 0.0 if session.started_at is None else _seconds(session.started_at, now) - ran_s
    earlier = [min(later(at, step_s), now) for at in before.times]
    recent = tuple(at for at in earlier if _seconds(at, now) < WINDOW_S)
    if len(recent) >= before.max:
        restarts = "1 restart" if before.max == 1 else f"{before.max} restarts"
        return GiveUp(f"gave up after {restarts} in {WINDOW_S / 60:.0f} minutes")
    delay_s = min(FIRST_S * 2 ** min(before.row, 10), LONGEST_S)
    after = replace(
        before,
        times=(*recent, now),
        row=before.row + 1,
        total=before.total + 1,
        next_at=later(now, delay_s),
        exit_code=exit.code,
        exit_signal=exit.signal,
    )
    return Restart(delay_s, after)


def after_pause(session: Session, exit: Exit, now: str) -> Restart:
    """The restart of a session whose process a pause has ended. It does not count as one after a crash."""
    before = session.restarts or Restarts(max=0)
    after = replace(before, total=before.total + 1, next_at=now, exit_code=exit.code, exit_signal=exit.signal)
    return Restart(0.0, after)


def restarts_of(requested: str | None, of_type: str, most: int) -> Restarts | None:
    """The restarts of a new session: as requested, else as for its agent type. Raises UsageError for another policy."""
    policy = of_type if requested is None else requested
    if policy not in RestartPolicy.__members__.values():
        raise UsageError(f"invalid value for --restart: {folded(policy, 40)!r}", "use never or on-failure")
    return Restarts(most) if policy == RestartPolicy.ON_FAILURE else None


def is_waiting(session: Session) -> bool:
    """True while the session has no process because its restart is not due yet."""
    return session.restarts is not None and session.restarts.next_at is not None


def is_between_processes(session: Session) -> bool:
    """True from a crash until the next process runs: also while the restart is due, and its account is parked."""
    restarts = session.restarts
    return restarts is not None and restarts.total > 0 and session.started_at is None and session.exit is None


def last_exit(session: Session) -> Exit:
    """How the process ended that the newest restart replaces; unknown without one."""
    restarts = session.restarts
    return Exit() if restarts is None else Exit(restarts.exit_code, restarts.exit_signal)


def _seconds(since: str, until: str) -> float:
    return epoch_s(until) - epoch_s(since)
