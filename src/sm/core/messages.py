"""Messages to sessions and to the operator, and the notices that become messages. Pure data."""

from sm.core.dataclass import dataclass
from sm.core.states import OPEN_STATES, MessageMode, MessageState, NoticeKind

SM_ITSELF = "sm"
"""The sender of notices."""

INBOX = "inbox"
TERMINAL = "terminal"
LINK = "link"
"""The ways of delivery: the recipient reads its inbox, or the daemon types into the terminal or sends over a link."""
TYPED_WHOLE = "typed; this agent type does not confirm messages"
"""The reason of an unconfirmed message to a program that reads lines. It is not a failure: more is never known."""
IN_CONVERSATION = "its transcript"
"""Evidence that the conversation of the agent contains a message, so that a restored agent has the message too."""
QUEUED_BY_AGENT = "its transcript: queued"
"""Evidence that the agent CLI has queued a message, which the agent has not read yet."""
BY_LINK = "its link"
"""Evidence that the agent's program has repeated the id of the message, so that its conversation has the message."""
IN_OPERATORS_INBOX = "in the operator's inbox, not read yet"
"""The reason of a message to the operator that waits."""
IN_ITS_QUEUE = "in its queue"
"""The reason of a submitted message that the agent has not read yet."""
_LINK_ID = "sm-"
_NUMBER_MAX = 15
_HOOK = " hook"
_QUEUED = ": queued"


def hook_evidence(hook: str, *, queued: bool = False) -> str:
    """Evidence that this hook of an agent reported a message, perhaps one that the agent only queued."""
    return f"its {hook}{_HOOK}{_QUEUED if queued else ''}"


def link_message_id(session_id: str, number: int) -> str:
    """The id of a message on the link of its recipient."""
    return f"{_LINK_ID}{session_id}-{number}"


def link_message_number(session_id: str, id: str) -> int | None:
    """The number of the message with this id on the link of this session, or None for an id of somebody else."""
    number = id.removeprefix(f"{_LINK_ID}{session_id}-")
    return int(number) if number != id and number.isdecimal() and len(number) <= _NUMBER_MAX else None


@dataclass(frozen=True, slots=True)
class Message:
    """A message without its text, which stays in the database."""

    id: int
    session_id: str | None
    """The recipient, or None for the operator's inbox."""
    sender: str
    """A session's id, `operator`, or `sm` for a notice."""
    mode: MessageMode
    state: MessageState
    created_at: str
    state_at: str
    via: str | None = None
    """`inbox`, `terminal` or `link`; None before the first delivery."""
    evidence: str | None = None
    reason: str | None = None
    submitted_at: str | None = None
    acknowledged_at: str | None = None
    expires_at: str | None = None
    held_until: str | None = None
    """The time from which a queued message may be delivered: empty until somebody allows it, None for now."""
    own_lines: int = 0
    """The number of lines at the end of the text that sm itself has added."""

    @property
    def open(self) -> bool:
        return self.state in OPEN_STATES

    @property
    def is_held(self) -> bool:
        """True while the message waits between two sessions that only answer each other."""
        return self.open and self.held_until is not None

    @property
    def reported_by_hook(self) -> bool:
        """True if no more than a hook of the agent reported the arrival."""
        return (self.evidence or "").removesuffix(_QUEUED).endswith(_HOOK)

    @property
    def in_agent_queue(self) -> bool:
        """True if the message was last known to wait in the agent's own queue."""
        return (self.evidence or "").endswith(_QUEUED)

    @property
    def settled(self) -> bool:
        """True if the state is final, and rests on more than the report of the agent's prompt hook.

        A hook of the user may still refuse the prompt. The conversation of the agent has the prompt after that.
        """
        hooked = self.mode is not MessageMode.COMMAND and self.reported_by_hook
        return not self.open and not (self.state is MessageState.SUBMITTED and hooked)


@dataclass(frozen=True, slots=True)
class Notice:
    """A report of `sm` about a session, which becomes an entry of a message."""

    id: int
    session_id: str
    """The session that the notice is about."""
    recipient: str | None
    """An ancestor of the session, or None for the operator."""
    kind: NoticeKind
    occasion: str
    """Deduplication key, unique for the session."""
    text: str
    created_at: str
