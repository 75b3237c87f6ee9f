"""Updates from Telegram, reduced to the fields that the daemon uses. Pure data."""

from enum import StrEnum

from sm.core.dataclass import dataclass


class UpdateKind(StrEnum):
    MESSAGE = "message"
    EDITED_MESSAGE = "edited_message"
    CALLBACK_QUERY = "callback_query"
    MY_CHAT_MEMBER = "my_chat_member"
    OTHER = "other"


ALLOWED_UPDATES = tuple(kind.value for kind in UpdateKind if kind is not UpdateKind.OTHER)


@dataclass(frozen=True, slots=True)
class IncomingUpdate:
    """One update. Telegram repeats it until a poll with a higher offset confirms it."""

    update_id: int
    kind: UpdateKind
    user_id: int | None = None
    """The person who wrote or pressed; None for a channel."""
    user_name: str = ""
    is_bot: bool = False
    chat_id: int | None = None
    chat_kind: str = ""
    chat_title: str = ""
    at: float | None = None
    """The time of the message, in seconds since the epoch. A press of a button has no time."""
    message_id: int | None = None
    thread_id: int | None = None
    reply_to: int | None = None
    """The id of the message that this one replies to."""
    text: str | None = None
    """None for a photo, a voice message, a file."""
    is_forwarded: bool = False
    is_anonymous: bool = False
    """The message speaks for a chat: an anonymous administrator or a channel."""
    is_member: bool = True
    """For a change of the bot's own membership: the bot is in the chat now."""
    callback_id: str | None = None
    callback_data: str | None = None

    @property
    def is_private(self) -> bool:
        return self.chat_kind == "private"
