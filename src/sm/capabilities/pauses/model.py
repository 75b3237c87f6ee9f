"""The timers of pauses. Pure; `core.pauses` has a session's pause."""

from enum import StrEnum


class PauseTimer(StrEnum):
    """The kinds of their timers. They are stored, so they never change."""

    RESUME = "resume"
    """The time of a session's pause is over."""
    PAUSE = "pause"
    """A paused agent may still work: its interrupt is repeated."""
