"""Enums for signals and events of sessions, and the states of messages and requests.

Imports only `enum` and `statuses`: commands of the CLI load this module. The statuses are apart: each enum costs
a command measurable time, and lists need no other.
"""

from enum import StrEnum

from sm.core.statuses import Tolerant


class EventType(Tolerant):
    SPAWNED = "spawned"
    STARTED = "started"
    RUNNING = "running"
    IDLE = "idle"
    WAITING_INPUT = "waiting_input"
    CHECKPOINT = "checkpoint"
    NOTE = "note"
    PROPOSED_COMPLETION = "proposed_completion"
    COMPLETED = "completed"
    ERROR = "error"
    ABANDONED = "abandoned"
    KILLED = "killed"
    REOPENED = "reopened"
    MESSAGE = "message"
    REQUEST = "request"
    WARNING = "warning"
    ARCHIVED = "archived"


class TrustLevel(StrEnum):
    DIRECT = "direct"
    SANDBOXED = "sandboxed"


class Mode(Tolerant):
    """Who decides that a session is finished (seed 003, Lifecycle Modes)."""

    AUTO = "auto"
    MANUAL = "manual"
    SUPERVISED = "supervised"


class SignalKind(StrEnum):
    """What can be observed of, or asked for, a session."""

    LAUNCHING = "launching"
    """Its terminal is about to be made."""
    STARTED = "started"
    """The agent's own process runs (after exec)."""
    START_FAILED = "start_failed"
    """No agent process came to be."""
    BUSY = "busy"
    WENT_IDLE = "went_idle"
    ASKED = "asked"
    """It waits for an answer."""
    REPORTED_COMPLETED = "reported_completed"
    REPORTED_ERROR = "reported_error"
    REPORTED_ABANDONED = "reported_abandoned"
    EXITED = "exited"
    """Its process ended by itself and well."""
    CRASHED = "crashed"
    """Its process ended in any other way."""
    TERMINAL_LOST = "terminal_lost"
    """Its terminal is gone and nobody knows how its process ended."""
    KILLED = "killed"
    """Its process is gone because a caller asked for that."""
    PARENT_ENDED = "parent_ended"
    REOPENED = "reopened"
    """An ended session works again in the process it had."""
    RESTARTED = "restarted"
    """An ended session gets a new process."""


REQUESTED = frozenset(
    {
        SignalKind.REPORTED_COMPLETED,
        SignalKind.REPORTED_ERROR,
        SignalKind.REPORTED_ABANDONED,
        SignalKind.REOPENED,
        SignalKind.RESTARTED,
    }
)
"""Signals that somebody asked for: an illegal one is an error, not late news."""


class CallerKind(StrEnum):
    OPERATOR = "operator"
    SESSION = "session"


class MessageState(Tolerant):
    """How far a message has come (design section 6)."""

    QUEUED = "queued"
    DELIVERING = "delivering"
    """It was handed over, or is being typed; whether it arrived is not known yet."""
    SUBMITTED = "submitted"
    """The recipient's own word: it has it."""
    ACKNOWLEDGED = "acknowledged"
    FAILED = "failed"
    EXPIRED = "expired"
    UNCONFIRMED = "unconfirmed"
    """It may have arrived. Never sent again by itself; late evidence may make it submitted."""


OPEN_STATES = frozenset({MessageState.QUEUED, MessageState.DELIVERING})
"""The states of a message that is still to become final."""


class MessageMode(Tolerant):
    AUTO = "auto"
    """As soon as the recipient takes input."""
    IDLE = "idle"
    """When it is idle."""
    URGENT = "urgent"
    """Before all others; a recipient that is typed to is interrupted first."""


class RequestKind(Tolerant):
    PERMISSION = "permission"
    QUESTION = "question"
    COMPLETION = "completion"


class RequestState(Tolerant):
    OPEN = "open"
    ANSWERED = "answered"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    """The session that asked has ended, or asks no more."""


class NoticeKind(Tolerant):
    ENDING = "ending"
    REQUEST = "request"
    IDLE = "idle"
    CHECKPOINT = "checkpoint"
    UNDELIVERED = "undelivered"
    """A message of the recipient's did not arrive."""
