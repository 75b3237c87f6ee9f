"""The chats, people, messages and updates that the server knows. The methods of the Bot API change them."""

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

BOT_ID = 4242
BOT_NAME = "sm_test_bot"
CALLBACK_MAX_AGE_S = 15.0
GROUP_PER_MINUTE = 20
ICON_COLOR = 0x6FB9F0
ALL_PER_SECOND = 30
CHAT_BURST = 5
"""Messages to one chat at once; after them one in a second."""

_RIGHTS = (
    "can_be_edited is_anonymous can_manage_chat can_delete_messages can_manage_video_chats can_restrict_members "
    "can_promote_members can_change_info can_invite_users can_post_stories can_edit_stories can_delete_stories"
).split()


class Refusal(Exception):
    """An answer with `ok: false`. `description` is complete, such as "Bad Request: chat not found"."""

    def __init__(self, code: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.code, self.description, self.parameters = code, description, parameters


def bad(words: str, **parameters: int) -> Refusal:
    return Refusal(400, f"Bad Request: {words}", **parameters)


def forbidden(words: str) -> Refusal:
    return Refusal(403, f"Forbidden: {words}")


@dataclass(slots=True)
class User:
    id: int
    name: str
    username: str | None = None
    is_bot: bool = False
    has_started: bool = False
    """The user wrote to the bot, so the bot may write to the user."""
    has_blocked: bool = False

    def json(self) -> dict[str, Any]:
        user: dict[str, Any] = {"id": self.id, "is_bot": self.is_bot, "first_name": self.name}
        return user | ({"username": self.username} if self.username else {})


@dataclass(slots=True)
class Topic:
    id: int
    name: str
    closed: bool = False
    deleted: bool = False
    date: int = 0

    def json(self, chat: "Chat", creator: User) -> dict[str, Any]:
        """The service message that begins the topic. Its id is the id of the thread."""
        return {
            "message_id": self.id,
            "date": self.date,
            "chat": chat.json(),
            "from": creator.json(),
            "message_thread_id": self.id,
            "is_topic_message": True,
            "forum_topic_created": {"name": self.name, "icon_color": ICON_COLOR},
        }


@dataclass(slots=True)
class Chat:
    """A chat with the bot. Tests change its fields, such as the rights of the bot, at any time."""

    id: int
    kind: str
    title: str
    is_forum: bool = False
    bot_is_admin: bool = False
    can_manage_topics: bool = False
    bot_was_kicked: bool = False
    members: dict[int, User] = field(default_factory=dict)
    topics: dict[int, Topic] = field(default_factory=dict)
    migrated_to: int | None = None
    allows_reactions: bool = True

    @property
    def is_group(self) -> bool:
        return self.kind != "private"

    def json(self) -> dict[str, Any]:
        name = "title" if self.is_group else "first_name"
        return {"id": self.id, "type": self.kind, name: self.title} | (
            {"is_forum": True} if self.is_forum else {}
        )


@dataclass(frozen=True, slots=True)
class Button:
    """A button as a person sees it; it may have left the message since."""

    chat_id: int
    message_id: int
    text: str
    data: str


@dataclass(slots=True)
class SentMessage:
    """A message in a chat, by the bot or by a person."""

    chat_id: int
    message_id: int
    date: int
    sender: User
    text: str
    """The text after entities parsing."""
    raw: str = ""
    """The text as sent, with its markup."""
    thread_id: int | None = None
    reply_to: int | None = None
    keyboard: dict[str, Any] | None = None
    silent: bool = False
    document: tuple[str, bytes] | None = None
    edits: list[str] = field(default_factory=list)
    """The earlier texts, oldest first."""
    reaction: str | None = None
    deleted: bool = False

    def button(self, text: str) -> Button:
        """The button with this text. Raises LookupError."""
        for row in (self.keyboard or {}).get("inline_keyboard", ()):
            for button in row:
                if button["text"] == text:
                    return Button(self.chat_id, self.message_id, text, button.get("callback_data", ""))
        raise LookupError(f"message {self.message_id} has no button {text!r}: {self.keyboard}")

    def json(self, chat: Chat) -> dict[str, Any]:
        message: dict[str, Any] = {
            "message_id": self.message_id,
            "date": self.date,
            "chat": chat.json(),
            "from": self.sender.json(),
        }
        if self.document:
            name, content = self.document
            id = f"file-{self.message_id}"
            message["document"] = {"file_id": id, "file_unique_id": id, "file_name": name}
            message["document"]["file_size"] = len(content)
            message["caption"] = self.text
        else:
            message["text"] = self.text
            if self.text.startswith("/"):
                length = len(self.text.split(maxsplit=1)[0])
                message["entities"] = [{"type": "bot_command", "offset": 0, "length": length}]
        if self.thread_id is not None:
            message |= {"message_thread_id": self.thread_id, "is_topic_message": True}
        if self.keyboard:
            message["reply_markup"] = self.keyboard
        return message


@dataclass(slots=True)
class Callback:
    id: str
    at: float
    answered: bool = False


@dataclass(slots=True)
class World:
    """Everything behind the bot's token. Not thread-safe: the server holds its lock."""

    now: Callable[[], float]
    users: dict[int, User] = field(default_factory=dict)
    chats: dict[int, Chat] = field(default_factory=dict)
    messages: dict[tuple[int, int], SentMessage] = field(default_factory=dict)
    callbacks: dict[str, Callback] = field(default_factory=dict)
    updates: dict[int, dict[str, Any]] = field(default_factory=dict)
    """The updates that no offset has confirmed, by id."""
    confirmed: list[dict[str, Any]] = field(default_factory=list)
    commands: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    answers: dict[str, str | None] = field(default_factory=dict)
    """The text shown to the person who pressed, by callback id."""
    reversed_order: bool = False
    """Return updates with the newest first."""
    omitted: frozenset[str] = frozenset()
    """Fields that no answer has, as of a server of an older version."""
    has_rival: bool = False
    """Another process polls with the token."""
    privacy: bool = True
    """The bot reads only commands and replies to it, in groups where it is not an administrator."""
    enforces_limits: bool = False
    """Refuse more messages than the documentation allows, with 429."""
    ignored_waits: list[tuple[str, int]] = field(default_factory=list)
    """The calls (method, chat) made before an earlier `retry_after` had passed."""
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(501))
    _update_numbers: Iterator[int] = field(default_factory=lambda: itertools.count(900_001))
    _callback_numbers: Iterator[int] = field(default_factory=lambda: itertools.count(0xCA11))
    _closed_until: dict[int, tuple[float, int]] = field(default_factory=dict)
    _sent: dict[int, deque[float]] = field(default_factory=dict)
    _all_sent: deque[float] = field(default_factory=deque)

    @property
    def bot(self) -> User:
        return User(BOT_ID, "sm", BOT_NAME, is_bot=True)

    def bot_member(self, chat: Chat) -> dict[str, Any]:
        """The bot as a member of a group."""
        if not chat.bot_is_admin:
            return {"user": self.bot.json(), "status": "member"}
        rights = dict.fromkeys(_RIGHTS, False) | {"can_manage_topics": chat.can_manage_topics}
        return {"user": self.bot.json(), "status": "administrator"} | rights

    def next_number(self) -> int:
        return next(self._numbers)

    def add_update(self, kind: str, content: dict[str, Any]) -> int:
        number = next(self._update_numbers)
        self.updates[number] = {"update_id": number, kind: content}
        return number

    def confirm(self, offset: int) -> None:
        """Forget the updates before `offset`; a negative one keeps only that many of the newest."""
        if offset < 0:
            kept = set(sorted(self.updates)[offset:])
        else:
            kept = {number for number in self.updates if number >= offset}
        for number in sorted(set(self.updates) - kept):
            self.confirmed.append(self.updates.pop(number))

    def add_message(self, message: SentMessage) -> SentMessage:
        self.messages[message.chat_id, message.message_id] = message
        return message

    def add_callback(self) -> Callback:
        callback = Callback(f"{next(self._callback_numbers):016x}", self.now())
        self.callbacks[callback.id] = callback
        return callback

    # The limits of the documentation ("My bot is hitting limits, how do I avoid this?")

    def close(self, chat_id: int, retry_after_s: int) -> Refusal:
        """Refuse every call to the chat for that long."""
        self._closed_until[chat_id] = self.now() + retry_after_s, retry_after_s
        return Refusal(429, f"Too Many Requests: retry after {retry_after_s}", retry_after=retry_after_s)

    def check_rate(self, method: str, chat: Chat) -> None:
        """Count a message or an edit. A caller who ignores `retry_after` is noted, and waits twice as long."""
        now = self.now()
        until, retry_after_s = self._closed_until.get(chat.id, (0.0, 0))
        if now < until:
            self.ignored_waits.append((method, chat.id))
            raise self.close(chat.id, 2 * retry_after_s)
        if not self.enforces_limits:
            return
        sent = self._sent.setdefault(chat.id, deque())
        while sent and sent[0] <= now - 60:
            sent.popleft()
        while self._all_sent and self._all_sent[0] <= now - 1:
            self._all_sent.popleft()
        if chat.is_group and len(sent) >= GROUP_PER_MINUTE:
            raise self.close(chat.id, max(1, round(sent[0] + 60 - now)))
        recent = sum(at > now - CHAT_BURST for at in sent)
        if not chat.is_group and recent >= 2 * CHAT_BURST:
            raise self.close(chat.id, CHAT_BURST)
        if len(self._all_sent) >= ALL_PER_SECOND:
            raise self.close(chat.id, 1)
        sent.append(now)
        self._all_sent.append(now)
