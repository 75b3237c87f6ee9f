"""Reads results of the Bot API: the few fields that the daemon uses, whatever else an answer has or lacks.

The library decodes an answer into objects that demand the fields of its own version of the API, and raises a TypeError
for one that an older server does not send. See https://core.telegram.org/bots/api for the fields.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sm.core.text import well_formed_json
from sm.telegram.updates import IncomingUpdate, UpdateKind

Model = TypeVar("Model", bound=BaseModel)


class Unreadable(Exception):
    """A result without what the daemon needs. The message names the field."""


class BotApiObject(BaseModel):
    """Fields of a JSON object. Others are left out."""

    model_config = ConfigDict(strict=True, frozen=True)


class User(BotApiObject):
    id: int
    is_bot: bool = False
    first_name: str = ""
    last_name: str = ""
    username: str = ""
    can_read_all_group_messages: bool = False

    @property
    def full_name(self) -> str:
        return f"{self.first_name} {self.last_name}".strip()


class Chat(BotApiObject):
    id: int
    type: str
    title: str = ""
    is_forum: bool = False


class Member(BotApiObject):
    """A member of a chat."""

    status: str
    can_manage_topics: bool = False

    @property
    def is_administrator(self) -> bool:
        return self.status == "administrator"

    @property
    def is_there(self) -> bool:
        return self.status not in ("left", "kicked")

    @property
    def manages_topics(self) -> bool:
        return self.is_administrator and self.can_manage_topics


class Made(BotApiObject):
    """The message or topic that a call made."""

    message_id: int | None = None
    message_thread_id: int | None = None
    date: int | None = None


class _Reference(BotApiObject):
    message_id: int


class _Shown(_Reference):
    """The message of a button, which may be too old for its text."""

    chat: Chat


class _Message(_Shown):
    date: int
    sender: User | None = Field(None, alias="from")
    message_thread_id: int | None = None
    is_topic_message: bool = False
    reply_to_message: _Reference | None = None
    text: str | None = None
    forward_origin: Any = None
    forward_date: int | None = None
    """As `forward_origin`, by servers before version 7.0 of the API."""
    sender_chat: Any = None


class _Press(BotApiObject):
    id: str
    sender: User = Field(alias="from")
    data: str = ""
    message: _Shown | None = None


class _Membership(BotApiObject):
    chat: Chat
    sender: User = Field(alias="from")
    date: int
    new_chat_member: Member


class _Update(BotApiObject):
    update_id: int
    callback_query: _Press | None = None
    my_chat_member: _Membership | None = None
    message: _Message | None = None
    edited_message: _Message | None = None


def read(model: type[Model], result: object) -> Model:
    """Read a result. Raises Unreadable."""
    try:
        return model.model_validate(well_formed_json(result))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise Unreadable(f"{place}: {first['msg']}" if place else first["msg"]) from None


def read_updates(result: object) -> tuple[list[IncomingUpdate], Sequence[str]]:
    """Read the updates of one poll; also return a line for each one that cannot be read.

    Such an update has the kind OTHER, so that it is confirmed and Telegram does not repeat it. Raises Unreadable.
    """
    if not isinstance(result, list):
        raise Unreadable("the result is no list")
    updates, problems = [], []
    for raw in result:
        try:
            updates.append(_incoming(read(_Update, raw)))
        except Unreadable as error:
            problems.append(str(error))
            if isinstance(raw, dict) and type(update_id := raw.get("update_id")) is int:
                updates.append(IncomingUpdate(update_id, UpdateKind.OTHER))
    return updates, problems


def _incoming(update: _Update) -> IncomingUpdate:
    if (press := update.callback_query) is not None:
        shown = press.message
        return IncomingUpdate(
            update.update_id,
            UpdateKind.CALLBACK_QUERY,
            user_id=press.sender.id,
            user_name=press.sender.full_name,
            is_bot=press.sender.is_bot,
            chat_id=shown.chat.id if shown else None,
            chat_kind=shown.chat.type if shown else "",
            chat_title=shown.chat.title if shown else "",
            message_id=shown.message_id if shown else None,
            callback_id=press.id,
            callback_data=press.data,
        )
    if (change := update.my_chat_member) is not None:
        return IncomingUpdate(
            update.update_id,
            UpdateKind.MY_CHAT_MEMBER,
            user_id=change.sender.id,
            user_name=change.sender.full_name,
            is_bot=change.sender.is_bot,
            chat_id=change.chat.id,
            chat_kind=change.chat.type,
            chat_title=change.chat.title,
            at=float(change.date),
            is_member=change.new_chat_member.is_there,
        )
    message = update.message or update.edited_message
    if message is None:
        return IncomingUpdate(update.update_id, UpdateKind.OTHER)
    sender = message.sender
    return IncomingUpdate(
        update.update_id,
        UpdateKind.MESSAGE if update.message else UpdateKind.EDITED_MESSAGE,
        user_id=sender.id if sender else None,
        user_name=sender.full_name if sender else "",
        is_bot=sender.is_bot if sender else False,
        chat_id=message.chat.id,
        chat_kind=message.chat.type,
        chat_title=message.chat.title,
        at=float(message.date),
        message_id=message.message_id,
        thread_id=message.message_thread_id if message.is_topic_message else None,
        reply_to=message.reply_to_message.message_id if message.reply_to_message else None,
        text=message.text,
        is_forwarded=message.forward_origin is not None or message.forward_date is not None,
        is_anonymous=message.sender_chat is not None,
    )
