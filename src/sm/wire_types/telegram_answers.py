"""The JSON objects in the answers of the routes of the bot."""

from sm.core.dataclass import dataclass
from sm.core.telegram_model import DroppedCall


@dataclass(frozen=True, slots=True)
class TelegramChatView:
    """A chat of the bot with an owner or a paired user."""

    chat_id: int
    kind: str
    """`private`, `group` or `supergroup`."""
    title: str
    seen_at: str | None
    """The time of the newest message from the chat."""


@dataclass(frozen=True, slots=True)
class GroupRightsView:
    """The rights of the bot in a group of the configuration."""

    chat_id: int
    title: str
    is_forum: bool
    manages_topics: bool
    """The bot may open and close topics."""
    reads_all: bool
    """The bot reads every message, not only commands and replies."""
    problem: str | None
    """Why Telegram did not tell the rights, or null if it did."""


@dataclass(frozen=True, slots=True)
class TelegramView:
    """The state of the bot."""

    configured: bool
    """False without `telegram.token_file`."""
    bot: str | None
    """The name of the bot, or null if Telegram has not answered yet."""
    last_answer_s: float | None
    """Seconds since the last answer to a poll, or null if there was none since the start of the daemon."""
    trouble: str | None
    """Why the bot does not work, or null if it does."""
    waiting: int
    """The number of calls that wait."""
    dropped: int
    """The number of calls that Telegram refused."""
    left_out: int
    """The number of reports left out since the last summary."""
    last_dropped: list[DroppedCall]
    chats: list[TelegramChatView]
    owners: list[str]
    """The owners of the configuration: `telegram:4711`."""
    paired: int
    """The number of paired users."""
    groups: list[GroupRightsView]
    clock_ahead_s: float | None
    """Seconds by which this machine's clock is ahead of Telegram's, or null if no message was sent yet."""


@dataclass(frozen=True, slots=True)
class TestedView:
    users: list[str]
    """The users for whom a message waits."""
