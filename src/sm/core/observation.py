"""Observations of an agent with turns, each from one source. Pure data."""

from dataclasses import field
from enum import StrEnum

from sm.core.dataclass import dataclass
from sm.core.faults import Fault


class Source(StrEnum):
    """Sources of observations, the most reliable first."""

    PROCESS = "process"
    """The kernel, about the agent's process: the agent does not read its terminal."""
    PROTOCOL = "protocol"
    """The agent's own program, on a link."""
    HOOK = "hook"
    STATE_FILE = "state file"
    TRANSCRIPT = "transcript"
    TITLE = "title"
    SCREEN = "screen"


class Activity(StrEnum):
    BUSY = "busy"
    BLOCKED = "blocked"
    """The agent waits for an answer to a permission, a question or a dialog."""
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class Observation:
    """A report of one source. Times are seconds since the epoch."""

    source: Source
    activity: Activity
    at: float
    """The time at which the agent emitted the report, not the time of the read."""
    reason: str
    turn: str | None = None
    """The id of the turn, where the agent names one."""
    opens: bool = False
    """First observation of its turn: late observations of the turn before are dropped from here on."""
    final: bool = False
    """If idle, the source reports the end of the turn itself, not only how the agent looks. If blocked, the process
    shows that a turn cannot continue either."""
    doubtful: bool = False
    """Idle, from a source (a title) that cannot tell idle from blocked."""
    who: str = ""
    """Id of the sub-agent, or empty for the agent itself."""
    use: str | None = None
    """Id of the tool use, or None if it has none or it is unknown."""
    answer: str | None = field(default=None, repr=False)
    """The agent's last words in the turn that has ended, if idle: empty if unknown, None if no turn has ended."""
    finished: bool = False
    """If idle, the agent finished the turn, which neither failed nor was interrupted. `answer` is its final message."""
    background: int = 0
    """The background tasks and shells of an idle agent that still run."""
    fault: Fault | None = None
    """Why the turn that has ended failed, if idle. None if it did not fail, or no turn has ended."""
    cleared: bool = False
    """If idle, the agent has begun a new conversation. What was said of the one before is over."""
    patience_s: float = 0.0
    """If busy, the time during which idle observations are ignored, because more activity is known to follow."""

    @property
    def asks_about_use(self) -> bool:
        return self.activity is Activity.BLOCKED and self.use is not None
