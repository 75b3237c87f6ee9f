"""Decides whether a paused session has stopped, and what to do while it has not. Pure: facts and a time in."""

from dataclasses import replace
from enum import StrEnum

from sm.core.dataclass import dataclass
from sm.core.lines import plural
from sm.core.models import Exit, Session
from sm.core.next_process import OrderedEnd, Restart, Restarts
from sm.core.pause_states import Held
from sm.core.pauses import Pause
from sm.core.timestamps import epoch_s

ENDED_BY_PAUSE = "its pause has ended the process"
"""The reason of such an end, for people and for the agent."""
LOOK_S = 0.5
"""How often sm looks at a session that may still spend."""
SOFT_LOOK_S = 5.0
FROZEN_LOOK_S = 30.0
"""How often sm looks whether a frozen session is still frozen."""
QUIET_S = 5.0
"""An agent that was told to stop has stopped when it has said so, and no usage has come, for this long."""
PRESS_AGAIN_S = 2.0
"""An agent that still works after this time is interrupted again: a key that comes as a turn begins may be lost."""
PRESSES_MAX = 3
"""The interrupts for one order: a status that is wrong must not let sm press keys for ever."""
FORCE_AFTER_S = 6.0
"""An agent that still spends after this time is stopped without the agent's help."""
TELL_AFTER_S = 10.0
"""Parent and operator are told of what still spends after this time."""
_SPENT_WITHIN_S = 3.0


class PauseStep(StrEnum):
    WAIT = "wait"
    PRESS = "press"
    """Interrupt the agent again."""
    FORCE = "force"
    """Freeze its processes, or end them."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The findings of one look at a paused session."""

    works: bool | None
    """True if a turn or a background agent runs, by the agent's own report. None without a report."""
    agents: int = 0
    """Background agents that were seen at work."""
    has_process: bool = True
    frozen: bool = False
    """Its cgroup says that all its processes are frozen."""
    still: bool = False
    """The agent has no turns: its processes are stopped."""
    tells: bool = True
    """The agent has turns, so it can be told to stop."""

    @property
    def spends(self) -> tuple[str, ...]:
        if not self.works:
            return ()
        if self.agents:
            return (plural(self.agents, "background agent"),)
        return ("its turn",)

    def goes_on_after(self, pause: Pause, now: str) -> bool:
        """True if the session spends long after the order."""
        if pause.settled_at is not None or pause.soft:
            return False
        return self._is_spending(pause, now) and _ordered_s(pause, now) >= TELL_AFTER_S

    def _is_spending(self, pause: Pause, now: str) -> bool:
        used_s = None if pause.used_at is None else _seconds(pause.used_at, now)
        return bool(self.works) or (used_s is not None and used_s < _SPENT_WITHIN_S)


def after_ordered_end(session: Session, exit: Exit, now: str) -> OrderedEnd:
    """The sequel of an end of the process that its pause has ordered: a restart, which counts as none after a crash."""
    before = session.restarts or Restarts(max=0)
    after = replace(before, total=before.total + 1, next_at=now, exit_code=exit.code, exit_signal=exit.signal)
    then = "" if session.paused is None else "; sm resume starts it again"
    restart = Restart(0.0, after, "the restart after the pause")
    return OrderedEnd(restart, ENDED_BY_PAUSE, ENDED_BY_PAUSE + then)


def after_look(pause: Pause, seen: Seen, now: str) -> tuple[PauseStep, Pause]:
    """The next step for a paused session, and its pause after the look."""
    if seen.frozen:
        return PauseStep.WAIT, _settled(pause, Held.FROZEN, now)
    if not seen.has_process:
        return PauseStep.WAIT, _settled(pause, Held.ENDED, now)
    if not seen.tells:
        return PauseStep.WAIT, _settled(pause, Held.TOLD, now) if seen.still else replace(pause, spends=())
    if pause.held == Held.FROZEN:  # somebody has thawed it
        pause = replace(pause, settled_at=None, held=None, ordered_at=now, presses=0)
    if seen.works:
        pause = replace(pause, settled_at=None, held=None, quiet_since=None, spends=seen.spends)
        if pause.soft:
            return PauseStep.WAIT, pause
        ordered_s = _ordered_s(pause, now)
        if ordered_s >= FORCE_AFTER_S:
            return PauseStep.FORCE, pause
        press = pause.presses < PRESSES_MAX and ordered_s >= pause.presses * PRESS_AGAIN_S
        return PauseStep.PRESS if press else PauseStep.WAIT, pause
    pause = replace(pause, quiet_since=pause.quiet_since or now, spends=())
    if pause.settled_at is not None:
        return PauseStep.WAIT, pause
    # An agent that says itself that nothing runs, and was not told to stop anything, is still.
    at_once = seen.works is False and not pause.presses and pause.used_at is None
    quiet_s = _seconds(max(pause.quiet_since or now, pause.used_at or ""), now)
    if at_once or quiet_s >= QUIET_S:
        return PauseStep.WAIT, _settled(pause, Held.TOLD, now)
    spending = pause.used_at is not None and _seconds(pause.used_at, now) < _SPENT_WITHIN_S
    if spending and not pause.soft and _ordered_s(pause, now) >= FORCE_AFTER_S:
        return PauseStep.FORCE, replace(pause, spends=("background work",))
    return PauseStep.WAIT, pause


def _settled(pause: Pause, held: Held, now: str) -> Pause:
    if pause.settled_at is not None and pause.held == held:
        return pause
    return replace(pause, settled_at=now, held=held, spends=())


def _ordered_s(pause: Pause, now: str) -> float:
    return _seconds(pause.ordered_at or pause.at, now)


def _seconds(since: str, until: str) -> float:
    try:
        return max(0.0, epoch_s(until) - epoch_s(since))  # the clock may have been set back
    except ValueError:
        return 0.0


class PauseTimer(StrEnum):
    """The kinds of their timers. They are stored, so they never change."""

    RESUME = "resume"
    """The time of a session's pause is over."""
    PAUSE = "pause"
    """A paused agent may still work: its interrupt is repeated."""
