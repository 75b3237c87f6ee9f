"""Signs that a session goes wrong. Pure data."""

from sm.core.dataclass import dataclass
from sm.core.statuses import Tolerant


class WarningKind(Tolerant):
    """The values are stored in the database, so they never change."""

    LOOP = "loop"
    """The agent repeats a tool call with the same result, or fails repeatedly with the same error."""
    NO_PROGRESS = "no_progress"
    """The agent works, but no tool ends, no token is used and nothing is printed."""
    BURN = "burn"
    """The agent uses tokens much faster than others of its type."""
    CONTEXT = "context"
    """The context window is nearly full."""
    UNANSWERED = "unanswered"
    """A request has been open for long."""
    MEMORY = "memory"
    """The processes of the agent use much memory."""
    CRASH_LOOP = "crash_loop"
    """The process of the session crashes and is restarted."""
    REPORT_MISSING = "report_missing"
    """The agent is idle and has not reported after its last reminder."""
    SILENT = "silent"
    """No source reports anything while the agent's own process uses the processor."""
    DENIED = "denied"
    """The agent's permission mode denies one action after the other, and no person is asked."""
    HOOKS_MISSING = "hooks_missing"
    """The agent accepted a prompt, and no hook has reported it."""
    TOOLS_MISSING = "tools_missing"
    """The agent works, and has not listed the tools of sm."""
    PING_PONG = "ping_pong"
    """The agent and another one only answer each other."""


@dataclass(frozen=True, slots=True)
class Sign:
    """A sign that a session goes wrong, as a part of the daemon has seen it."""

    kind: WarningKind
    value: float
    """The measured value; its unit depends on the kind (docs/lifecycle.md)."""
    evidence: str
    """One line for people. It may quote the agent."""
    limit: float | None = None
    """The limit of `value`, or None for the configured one, below which it is no sign."""
    recorded: bool = False
    """Its event exists."""
