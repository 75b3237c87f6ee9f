"""The JSON objects in the answers of the routes of the bot."""

from typing import Annotated

from typing_extensions import TypedDict  # pydantic reads the one of `typing` only from Python 3.12 on

from sm.api.fields import doc


class DroppedCallView(TypedDict):
    """A call that Telegram refused."""

    at: str
    chat_id: int | None
    method: str
    reason: str


class TelegramChatView(TypedDict):
    """A chat of the bot with an owner or a paired user."""

    chat_id: int
    kind: Annotated[str, doc("`private`, `group` or `supergroup`.")]
    title: str
    seen_at: Annotated[str | None, doc("The time of the newest message from the chat.")]


class GroupRightsView(TypedDict):
    """The rights of the bot in a group of the configuration."""

    chat_id: int
    title: str
    is_forum: bool
    manages_topics: Annotated[bool, doc("The bot may open and close topics.")]
    reads_all: Annotated[bool, doc("The bot reads every message, not only commands and replies.")]
    problem: Annotated[str | None, doc("Why Telegram did not tell the rights; null: it did.")]


class TelegramView(TypedDict):
    """The state of the bot."""

    configured: Annotated[bool, doc("False: no `telegram.token_file`.")]
    bot: Annotated[str | None, doc("The name of the bot; null: Telegram has not answered yet.")]
    last_answer_s: Annotated[
        float | None,
        doc("Seconds since the last answer to a poll; null: none since the start of the daemon."),
    ]
    trouble: Annotated[str | None, doc("Why the bot does not work; null: it does.")]
    waiting: Annotated[int, doc("The number of calls that wait.")]
    dropped: Annotated[int, doc("The number of calls that Telegram refused.")]
    left_out: Annotated[int, doc("The number of reports left out since the last summary.")]
    last_dropped: list[DroppedCallView]
    chats: list[TelegramChatView]
    owners: Annotated[list[str], doc("The owners of the configuration: `telegram:4711`.")]
    paired: Annotated[int, doc("The number of paired users.")]
    groups: list[GroupRightsView]
    clock_ahead_s: Annotated[
        float | None,
        doc("Seconds by which this machine's clock is ahead of Telegram's; null: no message was sent yet."),
    ]


class TestedView(TypedDict):
    users: Annotated[list[str], doc("The users for whom a message waits.")]
