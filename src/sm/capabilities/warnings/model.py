"""Warnings: signs that a session goes wrong, each with its evidence. Pure data."""

from enum import StrEnum

from sm.core.dataclass import dataclass
from sm.core.warnings import WarningKind


class WarningTimer(StrEnum):
    """The kinds of timers. They are stored in the database, so they never change."""

    WATCH = "watch"
    """A working session is checked for warnings."""
    UNANSWERED = "unanswered"
    """The oldest request of a session may have been open for too long."""
    HELD_MESSAGE = "held_message"
    """The wait of a message (the subject is its number) is over."""
    EXCHANGE = "exchange"
    """Two sessions (`FIRST/SECOND`) have stopped answering each other, or wait for a decision."""
    LINKS = "links"
    """Looks whether the hooks and the tools of an agent reach sm after a prompt."""


OF_WORK = (WarningKind.NO_PROGRESS, WarningKind.BURN, WarningKind.SILENT)
"""The kinds whose cause ends when the session stops working."""

OF_PROCESS = (WarningKind.MEMORY, WarningKind.CRASH_LOOP)
"""The kinds whose cause ends only with time or with the process, also while the session does nothing."""


@dataclass(frozen=True, slots=True)
class SessionWarning:
    """One episode of a warning about a session. A session has at most one open warning of each kind and subject."""

    id: int
    session_id: str
    kind: WarningKind
    opened_at: str
    """ISO 8601, UTC."""
    value: float
    """The measured value; its unit depends on the kind (docs/lifecycle.md)."""
    limit: float
    """The limit that `value` has reached."""
    evidence: str
    """One line of at most `EVIDENCE_MAX` characters for people. It may quote the agent."""
    closed_at: str | None = None
    """None if the cause lasts."""
    told: bool = True
    """True if the parent and the operator were told, False if only the agent itself was."""
    nudge: int | None = None
    """The message that tells the agent itself."""
    subject: str = ""
    """The pair of an exchange of messages, or empty if a session has one warning of this kind."""


EVIDENCE_MAX = 300

NUDGES = {
    WarningKind.LOOP: "sm noticed that you repeat yourself: {evidence}. Repeating it will not help. Find the cause, "
    "try something else, or ask for help: sm ask 'QUESTION'.",
    WarningKind.NO_PROGRESS: "sm noticed no progress: {evidence}. If you are stuck, try something else, or ask for "
    "help: sm ask 'QUESTION'.",
    WarningKind.BURN: "sm noticed that you use tokens unusually fast: {evidence}. Read and print less at once.",
    WarningKind.CONTEXT: "sm noticed that your context window is nearly full: {evidence}. Finish the current step, and "
    "keep what is important in a file or in sm checkpoint.",
    WarningKind.MEMORY: "sm noticed that your processes use much memory: {evidence}. End those that you do not need.",
    WarningKind.SILENT: "sm noticed that you report nothing: {evidence}.",
}
"""The messages to the agent itself."""


@dataclass(frozen=True, slots=True)
class MessageExchange:
    """The steps of sm about the messages between two sessions, `first` < `second`."""

    first: str
    second: str
    after_id: int = 0
    """Only messages with a larger id count: the pair was let go on, or was silent for long."""
    owner: str | None = None
    """The session that has the warning and the request, or None if no warning is open."""
    request: int | None = None
    """The request that asks whether the pair may go on."""
    is_refused: bool = False
    """Somebody denied the request: no further message until one of the two has worked."""

    @property
    def subject(self) -> str:
        """The subject of its timer."""
        return f"{self.first}/{self.second}"


@dataclass(frozen=True, slots=True)
class Sent:
    """One message of a pair."""

    id: int
    sender: str
    at: str
