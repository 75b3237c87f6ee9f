"""Pauses of sessions. Pure data."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pause:
    """The reason and the end of a session's pause. Times are ISO 8601 UTC with `Z`."""

    at: str
    by: str
    """The caller: `operator`, a session's id, a user such as `telegram:4711`, or `sm`."""
    reason: str
    """A few words: `paused by the operator`."""
    until: str | None = None
    """The session resumes then by itself; None: never."""
    soft: bool = False
    """The turn that is under way may end."""
    cut_off: bool = False
    """The pause interrupted a turn: the agent is told to go on when it resumes."""
    suspends: bool = False
    """The agent has no turns: its processes are stopped."""
    budget: str | None = None
    """The subject of the spent budget that paused the session; None: it was paused otherwise."""


GO_ON = "You were paused in the middle of your work. Go on where you were interrupted."
"""The message to an agent whose turn a pause has interrupted."""
PAUSED = "the session is paused"
"""The reason why its messages and its completion wait."""
