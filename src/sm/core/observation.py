"""What one source reports about an agent with turns: pure data."""

from dataclasses import dataclass
from enum import StrEnum


class Source(StrEnum):
    """Where an observation comes from, strongest first."""

    HOOK = "hook"
    STATE_FILE = "state file"
    TRANSCRIPT = "transcript"
    TITLE = "title"
    SCREEN = "screen"


class Activity(StrEnum):
    BUSY = "busy"
    BLOCKED = "blocked"
    """It waits for an answer: a permission, a question, a dialog, an obstacle at its start."""
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class Observation:
    """One thing that one source said. Times are seconds since the epoch."""

    source: Source
    activity: Activity
    at: float
    """When it was so: emitted by the agent, not when it was read."""
    reason: str
    turn: str | None = None
    """The turn that it belongs to, where the agent names one."""
    opens: bool = False
    """It begins its turn: what comes late from the turn before is dropped from here on."""
    final: bool = False
    """Idle: it tells of the turn's end itself, and not only of how it looks."""
    doubtful: bool = False
    """Idle as the source cannot tell it from blocked (a title)."""
    who: str = ""
    """The sub-agent that it is about; empty: the agent itself."""
    use: str | None = None
    """The id of the use of a tool that it is about; None: of none, or of one that is not known."""
    patience_s: float = 0.0
    """Busy: how long it is believed against all that looks idle, because more is known to come."""

    @property
    def asks_about_use(self) -> bool:
        return self.activity is Activity.BLOCKED and self.use is not None
