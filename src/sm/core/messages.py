"""Messages to sessions and to the operator, and notices before they are part of one. Pure data."""

from dataclasses import dataclass

from sm.core.states import OPEN_STATES, MessageMode, MessageState, NoticeKind

SM_ITSELF = "sm"
"""The sender of notices."""

INBOX = "inbox"
TERMINAL = "terminal"
"""The ways of delivery: the recipient takes a message from its inbox, or the daemon types it."""
IN_ITS_QUEUE = "its transcript: queued"
"""The evidence of a message that an agent has in a queue of its own, and has not read yet."""


@dataclass(frozen=True, slots=True)
class Message:
    """A text from one caller to a session, but for the text, which stays in the database."""

    id: int
    session_id: str | None
    """The recipient; None: the operator's inbox."""
    sender: str
    """A session's id, `operator`, or `sm` for a notice."""
    mode: MessageMode
    state: MessageState
    created_at: str
    state_at: str
    via: str | None = None
    """`inbox` or `terminal`, once it is delivering."""
    evidence: str | None = None
    reason: str | None = None
    submitted_at: str | None = None
    acknowledged_at: str | None = None
    expires_at: str | None = None

    @property
    def open(self) -> bool:
        return self.state in OPEN_STATES


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that `sm` has to tell, once, before it is part of a message."""

    id: int
    session_id: str
    """Whom it is about."""
    recipient: str | None
    """Whom it is for: an ancestor, or None for the operator."""
    kind: NoticeKind
    occasion: str
    """What happened, unique for the session: one occasion is told once."""
    text: str
    created_at: str
