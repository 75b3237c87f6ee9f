"""Calls to Telegram that are still to be made, and the chats of the bot. Pure data."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import IntEnum, StrEnum
from typing import Any

from sm.core.dataclass import dataclass
from sm.core.effects import EffectState
from sm.core.telegram_threads import TOPIC, ForumFacts, ProgressCard, Topic

_NUMBER_MAX = 2**52
"""Numbers of users have at most 52 significant bits (Telegram Bot API, `User.id`)."""
QUEUE_MAX = 1000
"""Calls that wait at once. Beyond it the oldest of the least needed ones are left out and counted."""


def telegram_user(number: int) -> str:
    """`telegram:4711`. Raises ValueError for a number that no user can have."""
    if not 0 < number < _NUMBER_MAX:
        raise ValueError(f"{number} is not the number of a user")
    return f"telegram:{number}"


class Need(IntEnum):
    """The order in which calls are made. The values are stored in the database, so they never change."""

    ANSWER = 0
    """An answer to a button or a command."""
    REQUEST = 1
    ENDING = 2
    PROGRESS = 3


class BotMethod(StrEnum):
    """The methods of the Bot API that the daemon queues, named as the library names them."""

    SEND_MESSAGE = "send_message"
    SEND_DOCUMENT = "send_document"
    EDIT_MESSAGE_TEXT = "edit_message_text"
    EDIT_MESSAGE_REPLY_MARKUP = "edit_message_reply_markup"
    ANSWER_CALLBACK_QUERY = "answer_callback_query"
    SET_MESSAGE_REACTION = "set_message_reaction"
    LEAVE_CHAT = "leave_chat"
    CREATE_FORUM_TOPIC = "create_forum_topic"
    EDIT_FORUM_TOPIC = "edit_forum_topic"
    CLOSE_FORUM_TOPIC = "close_forum_topic"
    REOPEN_FORUM_TOPIC = "reopen_forum_topic"


SENDS_ONCE = frozenset({BotMethod.SEND_MESSAGE, BotMethod.SEND_DOCUMENT})
"""Telegram has no key against their repetition: a repeated call makes a second message."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A row of the outbox: a call of the Bot API that waits for its turn, or that has begun."""

    id: int
    chat_id: int | None
    """None if the call is for no chat, such as the answer to a button."""
    method: str
    """A BotMethod, or an unknown text if a newer version has written the row."""
    parameters: Mapping[str, Any]
    """The parameters of the method, without `chat_id`."""
    need: int
    created_at: str
    state: EffectState = EffectState.PENDING
    lost_answers: int = 0
    """How many attempts ended without an answer, so that Telegram may have carried them out."""
    subject: str | None = None
    """A later call with the same subject replaces this one while it waits: only the newest state matters."""
    about: str | None = None
    """The object that the message shows, such as `session 1a2b3c4d`, kept with the id of the sent message."""


def topic_of(call: Outgoing) -> tuple[str, int]:
    """The session and the chat of the topic that the call names."""
    assert call.chat_id is not None  # a topic is in a chat
    return str(call.parameters[TOPIC]), call.chat_id


@dataclass(frozen=True, slots=True)
class TelegramChat:
    """A chat that wrote to the bot, or to which the bot wrote."""

    chat_id: int
    kind: str = ""
    """`private`, `group` or `supergroup`, or empty if not known yet."""
    title: str = ""
    seen_at: str | None = None
    """The time of the newest update from the chat."""
    migrated_to: int | None = None
    """The supergroup that replaced the group."""
    closed_until: float = 0.0
    """Seconds since the epoch until which Telegram refuses calls (429)."""


@dataclass(frozen=True, slots=True)
class GroupRights:
    """The rights of the bot in a group of the configuration, as Telegram told them."""

    chat_id: int
    title: str = ""
    is_forum: bool = False
    manages_topics: bool = False
    reads_all: bool = False
    """The bot reads every message: it is an administrator, or its privacy mode is off."""
    problem: str | None = None
    """Why Telegram did not tell the rights."""


@dataclass(frozen=True, slots=True)
class DroppedCall:
    """A call that Telegram refused for good, without its text."""

    at: str
    chat_id: int | None
    method: str
    reason: str


@dataclass(frozen=True, slots=True)
class TelegramCounts:
    """Calls that were not made: refused by Telegram (`dropped`), or left out because too many waited."""

    dropped: int = 0
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class NewCall:
    """A call to add to the queue."""

    chat_id: int | None
    method: BotMethod
    parameters: Mapping[str, Any] = field(default_factory=dict)
    need: Need = Need.ANSWER
    subject: str | None = None
    about: str | None = None
    replaces: bool = False
    """Only replace a waiting call with the same subject."""


@dataclass(frozen=True, slots=True)
class TelegramButton:
    """A button that may be pressed once in one chat. Telegram gets only its nonce, the database only the digest."""

    digest: str
    chat_id: int
    user_id: int
    """The only user who may press it, or `ANYONE` for everybody in the chat who may carry out the action."""
    action: str
    """The command that a press carries out, such as `approve r57`."""
    about: str
    """The buttons of one message have the same object. A press that decides uses up all of them."""
    expires_at: str | None


@dataclass(frozen=True, slots=True)
class CardDraft:
    """The choices of a person on the card of a request, before the answer is complete."""

    about: str
    chat_id: int
    answers: tuple[str, ...] = ()
    """The answers to the first questions."""
    ticked: tuple[int, ...] = ()
    """The numbers of the options, from 1, that are ticked for the next question."""
    page: int = 0
    """The page of options that the card shows, from 0."""
    reason_from: int | None = None
    """The user whose reply to the card is the reason of a denial, or None if a reply decides nothing."""


@dataclass(frozen=True, slots=True)
class WatchedText:
    """A text of a person that became a message to a session. The person is told what becomes of it."""

    id: int
    """The number of the message."""
    chat_id: int
    text_id: int
    """The id of the text in the chat."""
    thread_id: int | None
    user: str
    """The person, such as `telegram:4711`."""
    is_told: bool = False
    """The person knows that the message waits."""


@dataclass(frozen=True, slots=True)
class TelegramChange:
    """Everything that follows from an update or from an event, written in one transaction with its number."""

    calls: Sequence[NewCall] = ()
    buttons: Sequence[TelegramButton] = ()
    spent: Sequence[str] = ()
    """The objects (`TelegramButton.about`) whose buttons and drafts are void from now on."""
    used: Sequence[str] = ()
    """The digests of buttons that were pressed, while the others of their message stay."""
    drafts: Sequence[CardDraft] = ()
    watched: Sequence[WatchedText] = ()
    chat: TelegramChat | None = None
    """The chat of a user who may use the bot."""
    withdrawn: Sequence[str] = ()
    """The subjects of waiting calls that are not needed any more. A call that may have been made stays."""
    topics: Sequence[Topic] = ()
    """Topics whose title or state the calls change."""
    cards: Sequence[ProgressCard] = ()
    """New texts and states of progress cards."""
    lost_cards: Sequence[ProgressCard] = ()
    """Cards whose message was never sent."""
    forum: ForumFacts | None = None


ANYONE = 0


def is_group(chat_id: int) -> bool:
    """Ids of groups are negative."""
    return chat_id < 0


def nonce_digest(nonce: str) -> str:
    return hashlib.sha256(nonce.encode("utf-8", "replace")).hexdigest()


def session_object(session_id: str) -> str:
    """The `about` of messages that show a session."""
    return f"session {session_id}"


def request_object(name: str) -> str:
    """The `about` of messages that show a request, such as `r57`."""
    return f"request {name}"


def message_object(number: int | str) -> str:
    """The `about` of messages that show what became of a message to a session."""
    return f"message {number}"
