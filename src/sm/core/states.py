"""Enums for signals and events of sessions, and the states of messages and requests.

CLI commands load this module, so it imports only `enum` and `statuses`. `Status` has its own module because each
enum costs measurable start-up time.
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
    PAUSED = "paused"
    RESUMED = "resumed"
    BUDGET = "budget"
    """Most of a budget is spent, it is spent, its sessions were stopped, or it was changed."""
    PERMISSION_MODE = "permission_mode"
    """The agent reports another permission mode than before: changed at its terminal, or by an approved plan."""
    PULL_REQUEST = "pull_request"
    """A pull request of its branch was opened, got a check or a review, or was merged or closed."""


class TrustLevel(StrEnum):
    DIRECT = "direct"
    SANDBOXED = "sandboxed"


class Mode(Tolerant):
    """Decides who may finish a session."""

    AUTO = "auto"
    MANUAL = "manual"
    SUPERVISED = "supervised"


class SignalKind(StrEnum):
    """Observed or requested changes of a session."""

    LAUNCHING = "launching"
    """The daemon is about to create the terminal."""
    STARTED = "started"
    """The agent's own process runs (after exec)."""
    START_FAILED = "start_failed"
    BUSY = "busy"
    WENT_IDLE = "went_idle"
    ASKED = "asked"
    """The agent waits for an answer."""
    REPORTED_COMPLETED = "reported_completed"
    REPORTED_ERROR = "reported_error"
    REPORTED_ABANDONED = "reported_abandoned"
    DETECTED_COMPLETED = "detected_completed"
    """The last words of a finished turn say that the work is done."""
    EXITED = "exited"
    """The process ended without an error."""
    CRASHED = "crashed"
    """The process ended with an error or by a signal."""
    TERMINAL_LOST = "terminal_lost"
    """The terminal is gone and the exit of its process is unknown."""
    RESTART_PLANNED = "restart_planned"
    """The process ended with an error, and sm starts another one after a delay."""
    KILLED = "killed"
    """The process ended at a caller's request."""
    PARENT_ENDED = "parent_ended"
    REOPENED = "reopened"
    """An ended session works again in the same process."""
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
"""Signals that a caller requested: an illegal one is an error, not late news."""


RESTORE = "restore"
"""The source of moves by `sm restore`."""


class CallerKind(StrEnum):
    OPERATOR = "operator"
    SESSION = "session"
    BRIDGE = "bridge"
    """A person who writes in a chat network, such as Telegram."""


class BridgeLevel(StrEnum):
    """The authority of a person in a chat network."""

    OWNER = "owner"
    """Named in the configuration."""
    DIRECT = "direct"
    SANDBOXED = "sandboxed"


class MessageState(Tolerant):
    """Delivery states of a message."""

    QUEUED = "queued"
    DELIVERING = "delivering"
    """Handed over or being typed; not confirmed yet."""
    SUBMITTED = "submitted"
    """The recipient confirmed that it has the message."""
    ACKNOWLEDGED = "acknowledged"
    FAILED = "failed"
    EXPIRED = "expired"
    UNCONFIRMED = "unconfirmed"
    """The message may have arrived. The daemon does not send it again; late evidence may make it submitted."""


OPEN_STATES = frozenset({MessageState.QUEUED, MessageState.DELIVERING})
"""The states that are not final."""


class MessageMode(Tolerant):
    AUTO = "auto"
    """Deliver as soon as the recipient takes input."""
    IDLE = "idle"
    """Deliver when the recipient is idle."""
    URGENT = "urgent"
    """Deliver before all others. Interrupts a recipient that reads its terminal."""
    COMMAND = "command"
    """A command to the agent CLI, typed without a header when the recipient is idle. Only `sm` chooses this mode."""


SENT_MODES = (MessageMode.AUTO, MessageMode.IDLE, MessageMode.URGENT)
"""The modes that a sender may choose."""


class TextUse(StrEnum):
    """Use of a text to a session with one open question. Without a choice of its sender, the text answers."""

    ANSWER = "answer"
    """Refuse the text if it answers no question."""
    MESSAGE = "message"
    ASK = "ask"
    """Refuse the text if it would answer a question, so that the sender can choose."""


class RequestKind(Tolerant):
    PERMISSION = "permission"
    QUESTION = "question"
    COMPLETION = "completion"
    SETUP = "setup"
    """A first-start dialog of an agent. Only the operator may answer."""
    BUDGET = "budget"
    """A budget is spent, and its sessions are paused: an approval adds to it."""
    EXCHANGE = "exchange"
    """Two sessions only answer each other, and their messages are held: an approval lets them go on."""
    DIALOG = "dialog"
    """A dialog that no hook reports. Only a person at the agent's terminal can answer it."""


class RequestState(Tolerant):
    OPEN = "open"
    ANSWERED = "answered"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    """The session has ended, or has withdrawn the request."""


class NoticeKind(Tolerant):
    ENDING = "ending"
    REQUEST = "request"
    IDLE = "idle"
    CHECKPOINT = "checkpoint"
    FAULT = "fault"
    """A turn failed, and the agent does not go on by itself."""
    BUDGET = "budget"
    """Most of a budget is spent, or all of it."""
    UNDELIVERED = "undelivered"
    """A message or an answer of the recipient did not arrive."""
    WARNING = "warning"
    """Something goes wrong in a session."""
    RESTORED = "restored"
    """A session that ended with a loss of terminals runs again, or cannot be restored."""
