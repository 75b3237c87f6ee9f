"""The methods of the Bot API, each a function of the world and of the parameters of the call."""

import json
import re
from collections.abc import Callable
from typing import Any

from tests.telegram_api.entities import InvalidEntities, parse_html, utf16_length
from tests.telegram_api.world import (
    BOT_ID,
    CALLBACK_MAX_AGE_S,
    ICON_COLOR,
    Chat,
    SentMessage,
    Topic,
    World,
    bad,
    forbidden,
)

TEXT_MAX = 4096
CAPTION_MAX = 1024
CALLBACK_DATA_MAX_BYTES = 64
DOCUMENT_MAX_BYTES = 50 * 1024 * 1024
REACTIONS = frozenset("👍👎❤🔥🎉👀🤔👌💯🤝✍🫡😢")
_GENERAL = 1
_NOT_MODIFIED = (
    "message is not modified: specified new message content and reply markup are exactly the same "
    "as a current content and reply markup of the message"
)

Parameters = dict[str, Any]


def _integer(parameters: Parameters, name: str) -> int | None:
    value = parameters.get(name)
    if value in (None, ""):
        return None
    try:
        return int(str(value))
    except ValueError:
        raise bad(f"invalid {name} specified") from None


def _structure(parameters: Parameters, name: str) -> Any:
    value = parameters.get(name)
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise bad(f"can't parse {name} JSON object") from None


def _is_true(parameters: Parameters, name: str) -> bool:
    return str(parameters.get(name, "")).lower() == "true"


def _chat(world: World, parameters: Parameters) -> Chat:
    """The chat of the call, which the bot may write to."""
    chat_id = _integer(parameters, "chat_id")
    if chat_id is None:
        raise bad("chat_id is empty")
    chat = world.chats.get(chat_id)
    if chat is None:
        raise bad("chat not found")
    if chat.migrated_to is not None:
        raise bad("group chat was upgraded to a supergroup chat", migrate_to_chat_id=chat.migrated_to)
    if chat.is_group:
        if chat.bot_was_kicked:
            raise forbidden(f"bot was kicked from the {chat.kind} chat")
        return chat
    user = world.users[chat.id]
    if user.has_blocked:
        raise forbidden("bot was blocked by the user")
    if not user.has_started:
        raise forbidden("bot can't initiate conversation with a user")
    return chat


def _text(parameters: Parameters, name: str, most: int, *, is_empty_allowed: bool = False) -> tuple[str, str]:
    """The text as sent and after entities parsing."""
    raw = str(parameters.get(name) or "")
    mode = str(parameters.get("parse_mode") or "")
    text = raw
    if mode.lower() == "html":
        try:
            text = parse_html(raw)
        except InvalidEntities as error:
            raise bad(f"can't parse entities: {error}") from None
    elif mode:
        raise bad("unsupported parse_mode")
    text = text.strip()
    if not text and not is_empty_allowed:
        raise bad("message text is empty")
    if utf16_length(text) > most:
        raise bad("message caption is too long" if name == "caption" else "message is too long")
    return raw, text


def _keyboard(parameters: Parameters) -> dict[str, Any] | None:
    markup = _structure(parameters, "reply_markup")
    if not markup:
        return None
    for row in markup.get("inline_keyboard", ()):
        for button in row:
            if not str(button.get("text", "")).strip():
                raise bad('can\'t parse inline keyboard button: Field "text" must be non-empty')
            data = button.get("callback_data")
            if data is not None and not 1 <= len(str(data).encode()) <= CALLBACK_DATA_MAX_BYTES:
                raise bad("BUTTON_DATA_INVALID")
    return markup if markup.get("inline_keyboard") else None


def _thread(chat: Chat, parameters: Parameters) -> int | None:
    thread = _integer(parameters, "message_thread_id")
    if thread is None or (thread == _GENERAL and chat.is_forum):
        return None
    topic = chat.topics.get(thread)
    if topic is None or topic.deleted:
        raise bad("message thread not found")
    if topic.closed and not (chat.bot_is_admin and chat.can_manage_topics):
        raise bad("TOPIC_CLOSED")
    return thread


def _reply(world: World, chat: Chat, parameters: Parameters) -> int | None:
    reply = _structure(parameters, "reply_parameters") or {}
    number = reply.get("message_id") or _integer(parameters, "reply_to_message_id")
    if number is None:
        return None
    replied = world.messages.get((chat.id, int(number)))
    if replied is not None and not replied.deleted:
        return int(number)
    if reply.get("allow_sending_without_reply"):
        return None
    raise bad("message to be replied not found")


def _own_message(world: World, chat: Chat, parameters: Parameters, purpose: str) -> SentMessage:
    number = _integer(parameters, "message_id")
    message = world.messages.get((chat.id, number or 0))
    if message is None or message.deleted:
        raise bad(f"message to {purpose} not found")
    if message.sender.id != BOT_ID:
        raise bad(f"message can't be {purpose}ed")
    return message


def _post(world: World, chat: Chat, parameters: Parameters, raw: str, text: str) -> SentMessage:
    return SentMessage(
        chat_id=chat.id,
        message_id=world.next_number(),
        date=int(world.now()),
        sender=world.bot,
        text=text,
        raw=raw,
        thread_id=_thread(chat, parameters),
        reply_to=_reply(world, chat, parameters),
        keyboard=_keyboard(parameters),
        silent=_is_true(parameters, "disable_notification"),
    )


def get_me(world: World, parameters: Parameters) -> Any:
    return world.bot.json() | {
        "can_join_groups": True,
        "can_read_all_group_messages": not world.privacy,
        "supports_inline_queries": False,
    }


def send_message(world: World, parameters: Parameters) -> Any:
    chat = _chat(world, parameters)
    raw, text = _text(parameters, "text", TEXT_MAX)
    message = _post(world, chat, parameters, raw, text)
    world.check_rate("sendMessage", chat)
    return world.add_message(message).json(chat)


def send_document(world: World, parameters: Parameters) -> Any:
    chat = _chat(world, parameters)
    raw, text = _text(parameters, "caption", CAPTION_MAX, is_empty_allowed=True)
    document = parameters.get("document")
    if not isinstance(document, tuple):
        raise bad("there is no document in the request")
    if not document[1]:
        raise bad("file must be non-empty")
    if len(document[1]) > DOCUMENT_MAX_BYTES:
        raise bad("file is too big")
    message = _post(world, chat, parameters, raw, text)
    message.document = document
    world.check_rate("sendDocument", chat)
    return world.add_message(message).json(chat)


def edit_message_text(world: World, parameters: Parameters) -> Any:
    chat = _chat(world, parameters)
    message = _own_message(world, chat, parameters, "edit")
    raw, text = _text(parameters, "text", TEXT_MAX)
    keyboard = _keyboard(parameters)
    if (message.raw, message.keyboard) == (raw, keyboard):
        raise bad(_NOT_MODIFIED)
    world.check_rate("editMessageText", chat)
    message.edits.append(message.text)
    message.raw, message.text, message.keyboard = raw, text, keyboard
    return message.json(chat)


def edit_message_reply_markup(world: World, parameters: Parameters) -> Any:
    chat = _chat(world, parameters)
    message = _own_message(world, chat, parameters, "edit")
    keyboard = _keyboard(parameters)
    if message.keyboard == keyboard:
        raise bad(_NOT_MODIFIED)
    world.check_rate("editMessageReplyMarkup", chat)
    message.keyboard = keyboard
    return message.json(chat)


def delete_message(world: World, parameters: Parameters) -> Any:
    chat = _chat(world, parameters)
    number = _integer(parameters, "message_id")
    message = world.messages.get((chat.id, number or 0))
    if message is None or message.deleted:
        raise bad("message to delete not found")
    if message.sender.id != BOT_ID and chat.is_group and not chat.bot_is_admin:
        raise bad("message can't be deleted")
    message.deleted = True
    return True


def set_message_reaction(world: World, parameters: Parameters) -> Any:
    chat = _chat(world, parameters)
    message = world.messages.get((chat.id, _integer(parameters, "message_id") or 0))
    if message is None or message.deleted:
        raise bad("message to react not found")
    reactions = _structure(parameters, "reaction") or []
    for reaction in reactions:
        if (
            not chat.allows_reactions
            or reaction.get("type") != "emoji"
            or reaction.get("emoji") not in REACTIONS
        ):
            raise bad("REACTION_INVALID")
    message.reaction = reactions[0]["emoji"] if reactions else None
    return True


def answer_callback_query(world: World, parameters: Parameters) -> Any:
    callback = world.callbacks.get(str(parameters.get("callback_query_id")))
    if callback is None or callback.answered or world.now() - callback.at > CALLBACK_MAX_AGE_S:
        raise bad("query is too old and response timeout expired or query ID is invalid")
    text = parameters.get("text")
    if text is not None and utf16_length(str(text)) > 200:
        raise bad("MESSAGE_TOO_LONG")
    callback.answered = True
    world.answers[callback.id] = None if text is None else str(text)
    return True


def _forum(world: World, parameters: Parameters, purpose: str) -> Chat:
    chat = _chat(world, parameters)
    if not chat.is_forum:
        raise bad("the chat is not a forum")
    if not (chat.bot_is_admin and chat.can_manage_topics):
        raise bad(f"not enough rights to {purpose} a topic")
    return chat


def _topic(world: World, parameters: Parameters, purpose: str) -> Topic:
    chat = _forum(world, parameters, purpose)
    topic = chat.topics.get(_integer(parameters, "message_thread_id") or 0)
    if topic is None or topic.deleted:
        raise bad("TOPIC_ID_INVALID")
    return topic


def _topic_name(parameters: Parameters) -> str:
    name = str(parameters.get("name") or "").strip()
    if not 1 <= utf16_length(name) <= 128:
        raise bad("TOPIC_TITLE_INVALID")
    return name


def create_forum_topic(world: World, parameters: Parameters) -> Any:
    chat = _forum(world, parameters, "create")
    topic = Topic(world.next_number(), _topic_name(parameters), date=int(world.now()))
    world.check_rate("createForumTopic", chat)
    chat.topics[topic.id] = topic
    return {"message_thread_id": topic.id, "name": topic.name, "icon_color": ICON_COLOR}


def edit_forum_topic(world: World, parameters: Parameters) -> Any:
    topic = _topic(world, parameters, "edit")
    name = _topic_name(parameters)
    if name == topic.name:
        raise bad("TOPIC_NOT_MODIFIED")
    topic.name = name
    return True


def close_forum_topic(world: World, parameters: Parameters) -> Any:
    return _set_closed(_topic(world, parameters, "close"), closed=True)


def reopen_forum_topic(world: World, parameters: Parameters) -> Any:
    return _set_closed(_topic(world, parameters, "reopen"), closed=False)


def _set_closed(topic: Topic, *, closed: bool) -> bool:
    if topic.closed == closed:
        raise bad("TOPIC_NOT_MODIFIED")
    topic.closed = closed
    return True


def set_my_commands(world: World, parameters: Parameters) -> Any:
    commands = _structure(parameters, "commands") or []
    if len(commands) > 100:
        raise bad("BOT_COMMANDS_TOO_MUCH")
    for command in commands:
        if not re.fullmatch(r"[a-z0-9_]{1,32}", str(command.get("command"))):
            raise bad("BOT_COMMAND_INVALID")
        if not 1 <= len(str(command.get("description", ""))) <= 256:
            raise bad("BOT_COMMAND_DESCRIPTION_INVALID")
    scope = _structure(parameters, "scope") or {"type": "default"}
    if "chat_id" in scope and int(scope["chat_id"]) not in world.chats:
        raise bad("chat not found")
    world.commands[json.dumps(scope, sort_keys=True)] = commands
    return True


def leave_chat(world: World, parameters: Parameters) -> Any:
    chat = _chat(world, parameters)
    if not chat.is_group:
        raise bad("chat not found")
    chat.bot_was_kicked = True
    return True


def get_chat(world: World, parameters: Parameters) -> Any:
    chat = world.chats.get(_integer(parameters, "chat_id") or 0)
    if chat is None or (not chat.is_group and not world.users[chat.id].has_started):
        raise bad("chat not found")
    gifts = dict.fromkeys(
        ("unlimited_gifts", "limited_gifts", "unique_gifts", "premium_subscription", "gifts_from_channels"),
        False,
    )
    return chat.json() | {"accent_color_id": 0, "max_reaction_count": 11, "accepted_gift_types": gifts}


def get_chat_member(world: World, parameters: Parameters) -> Any:
    chat = _chat(world, parameters)
    user_id = _integer(parameters, "user_id")
    if user_id == BOT_ID:
        return world.bot_member(chat)
    user = chat.members.get(user_id or 0)
    if user is None:
        raise bad("member not found")
    return {"user": user.json(), "status": "member"}


def delete_webhook(world: World, parameters: Parameters) -> Any:
    if _is_true(parameters, "drop_pending_updates"):
        world.confirm(max(world.updates, default=0) + 1)
    return True


METHODS: dict[str, Callable[[World, Parameters], Any]] = {
    "getme": get_me,
    "sendmessage": send_message,
    "senddocument": send_document,
    "editmessagetext": edit_message_text,
    "editmessagereplymarkup": edit_message_reply_markup,
    "deletemessage": delete_message,
    "setmessagereaction": set_message_reaction,
    "answercallbackquery": answer_callback_query,
    "createforumtopic": create_forum_topic,
    "editforumtopic": edit_forum_topic,
    "closeforumtopic": close_forum_topic,
    "reopenforumtopic": reopen_forum_topic,
    "setmycommands": set_my_commands,
    "leavechat": leave_chat,
    "getchat": get_chat,
    "getchatmember": get_chat_member,
    "deletewebhook": delete_webhook,
}
"""Every method but getUpdates, which waits. Names are case-insensitive."""
