"""The operations of messages and inboxes."""

from typing import Annotated

from sm.core.dataclass import dataclass
from sm.core.states import SENT_MODES, TextUse
from sm.operations import Operation
from sm.operations.access_rules import (
    ABOVE,
    EVERY_CALLER,
    OPERATOR_AND_OWNERS,
    READ,
    READ_ALSO_ITSELF,
    REPORT,
    SEE,
    Audience,
    CallerRole,
)
from sm.operations.arguments import (
    LISTED,
    NEEDED,
    Limit,
    NewsWait,
    OneOf,
    Seconds,
    SeenByPerson,
    SessionName,
    WaitS,
    WholeNumber,
)
from sm.operations.session_operations import ARCHIVE, ATTACH_FILES, INTERRUPT
from sm.wire_types.fields import narrowed
from sm.wire_types.message_answers import LetterView, LoggedView, MessageView, SentView


@dataclass(frozen=True, slots=True)
class TextToSend:
    """A text for a session."""

    to: Annotated[str, NEEDED] = ""
    """A session, named as in a path."""
    text: Annotated[str, NEEDED] = ""
    mode: Annotated[str, OneOf("mode", SENT_MODES)] | None = None
    """`auto` if null."""
    ttl_s: Seconds | None = None
    """How long the message may wait, in seconds, or null for a day."""
    wait_s: Seconds | None = None
    """How long to wait for news, in seconds, at most 25."""
    answer: Annotated[str, OneOf("answer", tuple(TextUse))] | None = None
    """For a session with one open question. `message`: leave the question open; `answer`: answer it, or be refused;
    `ask`: be refused with `answers_question`. Null answers it."""
    request_id: str | None = None
    """With `answer`: only this question, such as `r57`."""
    files: list[str] | None = None
    """The ids of uploaded files, at most 10; only from the operator. The text is a message then, and no answer."""


@dataclass(frozen=True, slots=True)
class MessageFilter(SeenByPerson):
    """The messages to list."""

    session: SessionName | None = None
    limit: Limit = LISTED


@dataclass(frozen=True, slots=True)
class MessageWait(NewsWait):
    """The event to wait for, and how long."""

    settled: bool = False
    """If present, `wait_s` also waits until the message is `settled`."""


@dataclass(frozen=True, slots=True)
class InboxLimit:
    """The number of messages to list."""

    limit: Limit = LISTED


@dataclass(frozen=True, slots=True)
class Taking:
    """The messages to take from an inbox."""

    limit: Annotated[Seconds, narrowed("integer", minimum=0, maximum=86_400)] | None = None
    """At most 50."""
    wait_s: WaitS | None = None


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The messages that arrived."""

    message_ids: list[WholeNumber] | None = None


SEND_COMMAND = Audience("command", "send commands to", OPERATOR_AND_OWNERS)
"""A command of the agent CLI acts without its model: it can end the agent, or change its permissions."""
SEND_COMPACT = Audience("compact", "compact the conversation of", ABOVE)
"""For a session, `Messages.send` requires also that it is the direct parent."""
SEND = Operation(
    "send",
    "Send a text to a session.",
    "POST /v1/messages",
    SentView,
    TextToSend,
    audience=Audience("send", "send messages to", ABOVE | {CallerRole.TEAM}),
    rules=(INTERRUPT.audience, ARCHIVE.audience, SEND_COMMAND, SEND_COMPACT, ATTACH_FILES, REPORT),
    command="send SESSION TEXT",
    tool="send_message",
    chat="send",
    chat_form="ID TEXT",
    chat_help="send a message to a session",
    key="s",
    title="Send a message",
    fields={"text": {"maxLength": 50_000}},
)
LOG = Operation(
    "messages",
    "List the messages from and to a session; without one the caller's, for the operator all.",
    "GET /v1/messages",
    list[LoggedView],
    MessageFilter,
    audience=EVERY_CALLER,
    rules=(SEE, READ),
    command="log SESSION",
    audit="log",
)
SHOW_MESSAGE = Operation(
    "message",
    "Show a message.",
    "GET /v1/messages/{id}",
    MessageView,
    MessageWait,
    audience=READ_ALSO_ITSELF,
)
INBOX = Operation(
    "inbox",
    "List the messages that wait for the caller.",
    "GET /v1/inbox",
    list[LetterView],
    InboxLimit,
    audience=EVERY_CALLER,
    command="inbox",
)
TAKE_INBOX = Operation(
    "take_inbox",
    """Take the messages that wait for the caller; with `wait_s` wait for the first one.

    A taken message is `delivering` until its confirmation. Without one it is offered again after 20 s.""",
    "POST /v1/inbox/take",
    list[LetterView],
    Taking,
    audience=EVERY_CALLER,
    command="inbox --take",
    audit="take",
)
CONFIRM_INBOX = Operation(
    "confirm_inbox",
    "Confirm that taken messages arrived.",
    "POST /v1/inbox/confirm",
    list[MessageView],
    Arrivals,
    audience=EVERY_CALLER,
    key="M",
    title="Mark as read",
    audit="confirm",
    takes_key=False,
    fields={"message_ids": {"maxItems": 50}},
)
