"""The operations of pauses. Standard library alone; `pausing` carries them out."""

from sm.core.dataclass import dataclass
from sm.operations import Operation, SessionsResult
from sm.operations.access_rules import ABOVE, Audience

TAG = "sessions"
_TOOL = "control_session"


@dataclass(frozen=True, slots=True)
class PauseRequest:
    """How to pause. At most one of `for_s` and `until` is set."""

    tree: bool | None = None
    """Pause the live descendants too."""
    soft: bool | None = None
    """Let the turn that is under way end."""
    for_s: float | None = None
    """The duration in seconds, or null to pause until it is resumed."""
    until: str | None = None
    """The end, in place of a duration: ISO 8601 with a time zone."""
    reason: str | None = None
    """One line for lists."""
    wait_s: float | None = None
    """How long to wait until nothing spends any more, at most 3600; 10 if null."""


@dataclass(frozen=True, slots=True)
class ResumeRequest:
    """The pauses that end."""

    tree: bool | None = None
    """Resume the paused descendants too."""


_PAUSE = Audience("pause", "pause or resume", ABOVE)
PAUSE = Operation(
    "pause",
    "Pause a session: all its work is stopped, and its messages are held until it is resumed.",
    "POST /v1/sessions/{ref}/pause",
    SessionsResult,
    PauseRequest,
    audience=_PAUSE,
    command="pause SESSION",
    tool=_TOOL,
    tool_action="pause",
)
RESUME = Operation(
    "resume",
    "End the pause of a session. An agent whose turn was interrupted is told to go on.",
    "POST /v1/sessions/{ref}/resume",
    SessionsResult,
    ResumeRequest,
    audience=_PAUSE,
    command="resume SESSION",
    tool=_TOOL,
    tool_action="resume",
)
OPERATIONS = (PAUSE, RESUME)
