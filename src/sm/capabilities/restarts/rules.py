"""Decides whether a session whose process has ended is started again, and when. Pure: facts and a time in."""

from dataclasses import replace
from enum import StrEnum

from sm.core.lifecycle import is_live
from sm.core.lines import plural
from sm.core.models import Exit, Session, Signal
from sm.core.next_process import GOOD_S, GiveUp, Restart, Restarts
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
_SIGINT = 2
_CTRL_C = (Exit(None, _SIGINT), Exit(128 + _SIGINT))
"""The second one is of a shell, or of a program that handles the signal and reports it like a shell."""
_FAILURES = (SignalKind.CRASHED, SignalKind.TERMINAL_LOST)


class RestartPolicy(StrEnum):
    NEVER = "never"
    ON_FAILURE = "on-failure"


def after_end(
    session: Session, signal: Signal, exit: Exit, now: str, ran_s: float, *, closed: bool = False
) -> Restart | GiveUp | None:
    """Decide what follows the end of a session's process, or return None if the session ends too.

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
        return GiveUp(f"gave up after {plural(before.max, 'restart')} in {WINDOW_S / 60:.0f} minutes")
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
    return Restart(delay_s, after, f"restart {after.count} of {after.max}")


def restarts_of(requested: str | None, of_type: str, most: int) -> Restarts | None:
    """The restarts of a new session: as requested, else as for its agent type. Raises UsageError for another policy."""
    policy = of_type if requested is None else requested
    if policy not in RestartPolicy.__members__.values():
        raise UsageError(f"invalid value for --restart: {folded(policy, 40)!r}", "use never or on-failure")
    return Restarts(most) if policy == RestartPolicy.ON_FAILURE else None


def _seconds(since: str, until: str) -> float:
    return epoch_s(until) - epoch_s(since)
