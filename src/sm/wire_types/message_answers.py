"""The JSON objects in the answers of the routes of messages."""

from sm.core.dataclass import dataclass
from sm.core.states import MessageMode, MessageState
from sm.wire_types.fields import Sparse, Time


@dataclass(frozen=True, slots=True)
class MessageView(Sparse):
    """A message to a session, without its text."""

    from_: str
    """`operator`, `sm`, the id of a session, or a user such as `telegram:4711`."""
    message_id: int | None
    """Null if the text answered a question."""
    from_label: str
    """The sender for people: the label of a session, or `from`."""
    session_id: str | None
    """The recipient, or null for the operator's inbox."""
    label: str
    """The recipient for people: as in SessionView, but the id of a session without a friendly name."""
    status: MessageState
    mode: MessageMode
    evidence: str | None
    """The proof of delivery."""
    reason: str | None
    """Why the message is not delivered, or not yet."""
    created_at: Time
    submitted_at: Time | None
    """When the recipient confirmed the message."""
    acknowledged_at: Time | None
    expires_at: Time | None
    held_until: str | None
    """The time at which a held message goes on: empty until somebody allows it, null if it is not held."""
    settled: bool
    """False if it is not final, or only the agent's prompt hook has reported the message, and a hook may refuse it."""


@dataclass(frozen=True, slots=True)
class SentView(MessageView):
    """A sent message."""

    request_id: str = ""
    """The question that the text answered."""
    unarchived: bool = False
    """True if the session was archived, and the message has unarchived it."""


@dataclass(frozen=True, slots=True)
class LoggedView(MessageView):
    """A message of the log."""

    text: str
    """The first 2,000 characters."""


@dataclass(frozen=True, slots=True)
class LetterView(MessageView):
    """A message with its text."""

    text: str
    shown: str
    """The text under the header that only the daemon writes."""
