"""What passes between sessions, and between them and people: messages, requests, notices. Pure data, as `models`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sm.core.models import Tolerant


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


SM_ITSELF = "sm"
"""The sender of notices."""

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


@dataclass(frozen=True, slots=True)
class Question:
    question: str
    options: tuple[str, ...] = ()
    multiple: bool = False
    """Several of the options may be chosen."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was decided on a request: `approved` for permissions and completions, `answers` for questions."""

    approved: bool
    answers: tuple[str, ...] = ()
    """One for each question; of several chosen options their words, joined by `, `."""
    message: str | None = None


BY_RULE = "rule"
"""Who answered a request that the configuration has decided (`auto_allow`, `auto_deny`)."""
BY_TERMINAL = "terminal"
"""Who answered one in the dialog itself: whoever sat there."""


@dataclass(frozen=True, slots=True)
class Request:
    """Something a session waits for. `r57` to people."""

    id: int
    session_id: str
    kind: RequestKind
    state: RequestState
    created_at: str
    state_at: str
    expires_at: str | None = None
    tool: str | None = None
    arguments: Mapping[str, Any] | None = None
    questions: tuple[Question, ...] = ()
    answer: Answer | None = None
    answered_by: str | None = None
    reason: str | None = None
    """Why it ended without an answer."""
    taken_at: str | None = None
    """When the session that asked got its answer."""
    hook: str | None = None
    """The key of the agent's own hook that waits for the answer while its dialog is open; None: nothing like it.

    Such a request is `open` until that hook has taken the answer; before, `answer` and `answered_by` are an offer.
    """
    tool_use: str | None = None
    """The agent CLI's own id of the use of the tool that it asks about."""
    agent: str = ""
    """The sub-agent that asks; empty: the agent itself."""
    cut: bool = False
    """`arguments` are too long to be kept: their texts are cut."""

    @property
    def name(self) -> str:
        return f"r{self.id}"

    @property
    def offered(self) -> bool:
        """It has an answer, which the hook that waits for it has not taken yet."""
        return self.open and self.answer is not None

    @property
    def words(self) -> str:
        """What is asked, or what a session proposes to complete with."""
        return " / ".join(question.question for question in self.questions)

    @property
    def open(self) -> bool:
        return self.state is RequestState.OPEN

    @property
    def untold(self) -> bool:
        """Answered, and the session that asked has not heard."""
        return self.state is RequestState.ANSWERED and self.taken_at is None


class NoticeKind(Tolerant):
    ENDING = "ending"
    REQUEST = "request"
    IDLE = "idle"
    CHECKPOINT = "checkpoint"
    UNDELIVERED = "undelivered"
    """A message of the recipient's did not arrive."""


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
