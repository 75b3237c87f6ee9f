"""Defines the words of a link: a standing connection on which an agent reports, and takes messages and answers.

Any provider with a protocol of its own may use them. The words of the core come first (`Observation`, `ToolUse`,
`ToolEnd`, `Usage`); the others are those of version 2 of the Agent Client Protocol where it has one: the answer to a
prompt means that the prompt was accepted, and the echo of the message with its id is the receipt.

Every word is evidence of the agent's own program. A lost link is no evidence: then a state is unknown, and the
conversation decides about messages once the link is back.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Protocol, TypeAlias

from sm.core.dataclass import dataclass
from sm.core.models import Process
from sm.core.observation import Observation
from sm.core.states import RequestKind
from sm.core.usage import Todo, ToolUse, Usage
from sm.providers.readers import Dialog, ToolEnd

RequestId: TypeAlias = int | str
"""The id of a request in the protocol. An answer repeats it unchanged."""


class Receipt(StrEnum):
    """The delivery of a message, by the id that sm gave it."""

    ACCEPTED = "accepted"
    """The program took the message. No proof: an interrupt may drop it without a word."""
    SUBMITTED = "submitted"
    """The conversation has the message: the program repeated its id. Final."""
    NOT_DELIVERED = "not delivered"
    """The conversation certainly does not have the message, so it may be sent again."""
    UNKNOWN = "unknown"
    """The link was lost before the receipt. The conversation decides once the link is back."""


class Answerer(StrEnum):
    """The side whose answer decided a request."""

    LINK = "link"
    """The answer that sm sent."""
    TERMINAL = "terminal"
    """Another client: usually a person in the agent's own terminal."""


@dataclass(frozen=True, slots=True)
class StateUpdate:
    """The agent runs, requires an action, or is idle."""

    observation: Observation
    requires: RequestKind | None = None
    """The action that the agent waits for, if it is blocked."""


@dataclass(frozen=True, slots=True)
class StateUnknown:
    """From now on the link does not know the agent's state."""

    at: float
    """Seconds since the epoch."""
    reason: str


@dataclass(frozen=True, slots=True)
class MessageUpdate:
    """The delivery of a message has changed."""

    id: str
    """The id that sm gave the message."""
    receipt: Receipt
    at: float
    """Seconds since the epoch."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class OfferedDecision:
    """An answer that the program offers for a permission."""

    name: str
    value: object = field(repr=False)
    """The value with which the protocol answers."""
    approves: bool | None = None
    """True if it lets the agent go on with the use, False if it refuses the use, None if unknown."""


@dataclass(frozen=True, slots=True)
class RequestOpened:
    """The agent waits for an answer, which every client of its program may give. The first one wins.

    The word comes again for a request whose answer by sm was lost with the link.
    """

    id: RequestId
    dialog: Dialog
    decisions: tuple[OfferedDecision, ...]
    """Empty for a question."""
    tool_use: str
    """The id of the tool use, equal to `ToolUse.id`, or empty if the request belongs to none."""


@dataclass(frozen=True, slots=True)
class RequestResolved:
    """A request is closed. A later word about the same id corrects who answered."""

    id: RequestId
    by: Answerer | None
    """None if the turn ended without an answer, or if it is unknown who answered."""


@dataclass(frozen=True, slots=True)
class ContextUpdate:
    """The tokens of the conversation, and the most that the model can read, or None if unknown."""

    used: int
    size: int | None


@dataclass(frozen=True, slots=True)
class PlanUpdate:
    """The agent's whole task list."""

    entries: tuple[Todo, ...]


@dataclass(frozen=True, slots=True)
class ConversationStarted:
    """The agent goes on with this conversation. What was said of the one before is over."""

    id: str
    by: Answerer
    """`TERMINAL` if a person began it in the agent's terminal."""
    transcript: str = ""
    """An absolute path, or empty if unknown."""
    model: str = ""
    forked_from: str = ""


@dataclass(frozen=True, slots=True)
class ConversationEnded:
    """The program no longer has the conversation in memory."""

    id: str
    at: float
    """Seconds since the epoch."""


LinkEvent: TypeAlias = (
    StateUpdate
    | StateUnknown
    | MessageUpdate
    | RequestOpened
    | RequestResolved
    | ToolUse
    | ToolEnd
    | Usage
    | ContextUpdate
    | PlanUpdate
    | ConversationStarted
    | ConversationEnded
)


@dataclass(frozen=True, slots=True)
class LinkAnswer:
    """An answer of sm to a request."""

    approved: bool
    decision: OfferedDecision | None = None
    """One of the decisions that the request offered, or None for the program's plain yes or no."""
    answers: tuple[str, ...] = ()
    """To a question: one for each of its questions."""
    message: str | None = field(default=None, repr=False)
    """Why a request was denied. A link whose protocol has no place for these words sends them before the answer."""


@dataclass(frozen=True, slots=True)
class LinkTarget:
    """The agent to which a link is opened."""

    session_id: str
    process: Process
    """The process in the session's terminal."""
    working_dir: str
    environment: Mapping[str, str] = field(repr=False)
    """The variables of the process."""
    conversation: str | None
    """The conversation that the session is known to have, or None if it has none yet."""
    unproven: tuple[str, ...] = ()
    """The ids of messages that an earlier link may have sent. The new link says `SUBMITTED` of each that the
    conversation has, and `NOT_DELIVERED` only of one that the conversation certainly does not get any more."""


class AgentLink(Protocol):
    """An open connection to the program of one agent. Its loss is no evidence about the agent.

    The link reads the program in a task of its own, so that a caller who is slow to ask for events never blocks it.
    Every method but `close` raises ConnectionError if the connection is lost, and SmError if the program refuses.
    """

    def events(self) -> AsyncIterator[LinkEvent]:
        """Yield the program's words, for one caller. Begins with the state, and with the requests that are open.

        Ends when the connection is lost, after `Receipt.UNKNOWN` for each message without a receipt.
        """

    async def send(self, text: str, id: str, *, waits: bool) -> None:
        """Send a message with an id of sm, which its `MessageUpdate` repeats. Returns before any receipt.

        An error leaves it open whether the program has the message: the word of its receipt decides, as `NOT_DELIVERED`
        if the program refuses it.

        `waits`: for a turn of its own after the one that runs. Otherwise the agent gets the message as soon as its
        program takes a message without losing it. An id that was sent and not delivered may be sent again.
        """

    async def answer(self, request: RequestId, answer: LinkAnswer) -> None:
        """Answer an open request. Another client may be faster: `RequestResolved` tells whose answer decided.

        Raises IllegalState if the request is closed, or if only a person in the terminal can give this answer.
        """

    async def interrupt(self) -> None:
        """Interrupt the turn that runs, if there is one. Returns when the program has accepted the interrupt."""

    async def close(self) -> None:
        """Close the connection. Idempotent. The program goes on."""


class LinkOpener(Protocol):
    """Opens links to the agents of one provider."""

    async def open(self, target: LinkTarget) -> AgentLink:
        """Connect to the program of an agent, and follow its conversation.

        Raises OSError or SmError if the program does not answer (yet). The caller tries again, as long as the process
        of the agent runs, and opens no second link to an agent before the first one is closed.
        """


class HeldLink(Protocol):
    """A standing connection to one agent's program, which other clients use at the same time.

    While the connection is lost, `run` makes it again and resumes the conversation; the words of `take` say what is
    unknown meanwhile. Every call has a time limit. A call raises ExternalError if the link is not connected, so that
    nothing was sent, or if the program refuses; and WaitTimeout if no answer came, so that the outcome is open.
    """

    @property
    def conversation(self) -> str | None:
        """The id of the conversation that the link follows, or None without one."""

    async def run(self, conversation: str | None = None, unproved: Sequence[str] = ()) -> None:
        """Hold the connection until cancelled. Call only once.

        `conversation`: the one to resume first, with the ids of messages that an earlier process sent to it without a
        receipt.
        """

    async def take(self) -> Sequence[LinkEvent]:
        """Wait for the next words, and return all of them, in their order.

        If nobody takes them for too long, the connection is dropped, never a word.
        """

    async def open(self, options: Mapping[str, object]) -> str:
        """Start a conversation, follow it, and return its id. `options`: as the program names them."""

    async def send(self, message: str, text: str, *, queued: bool = False) -> None:
        """Send a text with the id `message`, which the program repeats: the words of `take` have the receipt.

        `queued`: the text waits for a turn of its own. Otherwise it begins a turn, or joins the one under way. The id
        is no idempotency key: a message that was sent twice arrives twice.
        """

    async def answer(
        self, request: RequestId, *, decision: OfferedDecision | None = None, answers: Sequence[str] = ()
    ) -> None:
        """Answer a request: a permission with a decision, a question with one answer for each of its parts.

        Raises IllegalState if the request is closed, or cannot be answered on a link. The words of `take` say whether
        this answer was the first one.
        """

    async def interrupt(self) -> bool:
        """Interrupt the turn under way. Returns False if there is none."""
