"""Scripted people: they write, press buttons, edit, block the bot and work in groups."""

from collections.abc import Callable
from typing import Any, TypeVar

from tests.telegram_api.world import BOT_ID, BOT_NAME, Button, Chat, SentMessage, User, World

T = TypeVar("T")
Change = Callable[[Callable[[World], Any]], Any]
"""Runs a function on the world, under the lock of the server, and wakes its pollers."""


class Person:
    """A user of Telegram. Each method is what a client does at once; the bot hears of it by getUpdates."""

    def __init__(self, user: User, change: Change) -> None:
        self._user = user
        self._change = change

    @property
    def id(self) -> int:
        """The id of the user, which is also the id of the private chat."""
        return self._user.id

    def says(
        self,
        text: str,
        chat: Chat | None = None,
        *,
        thread: int | None = None,
        reply_to: SentMessage | None = None,
        age_s: float = 0,
        **extra: Any,
    ) -> SentMessage:
        """Write a message, to the bot or in a group. `age_s`: how long ago; `extra`: more fields of the update."""

        def write(world: World) -> SentMessage:
            place = chat or world.chats[self.id]
            if not place.is_group:
                self._user.has_started = True
            message = world.add_message(
                SentMessage(
                    chat_id=place.id,
                    message_id=world.next_number(),
                    date=int(world.now() - age_s),
                    sender=self._user,
                    text=text,
                    raw=text,
                    thread_id=thread,
                    reply_to=reply_to.message_id if reply_to else None,
                )
            )
            if _bot_sees(world, place, message, reply_to):
                content = message.json(place)
                topic = place.topics.get(thread or 0)
                if reply_to:
                    content["reply_to_message"] = reply_to.json(place)
                elif topic is not None:  # a message in a topic replies to the one that begins the topic
                    content["reply_to_message"] = topic.json(place, world.bot)
                world.add_update("message", content | extra)
            return message

        return self._do(write)

    def edits(self, message: SentMessage, text: str) -> None:
        def edit(world: World) -> None:
            message.edits.append(message.text)
            message.text = message.raw = text
            content = message.json(world.chats[message.chat_id]) | {"edit_date": int(world.now())}
            world.add_update("edited_message", content)

        self._do(edit)

    def presses(self, button: Button) -> str:
        """Press a button, also one that has left its message since. Returns the id of the callback query."""

        def press(world: World) -> str:
            callback = world.add_callback()
            message = world.messages[button.chat_id, button.message_id]
            content = {
                "id": callback.id,
                "from": self._user.json(),
                "chat_instance": str(button.chat_id),
                "message": message.json(world.chats[button.chat_id]),
                "data": button.data,
            }
            world.add_update("callback_query", content)
            return callback.id

        return self._do(press)

    def blocks(self, blocked: bool = True) -> None:
        def block(world: World) -> None:
            self._user.has_blocked = blocked

        self._do(block)

    def joins(self, chat: Chat) -> None:
        """Become a member of a group, as every reader of the group is."""
        self._do(lambda world: chat.members.__setitem__(self.id, self._user))

    def adds_bot(self, chat: Chat) -> None:
        """Add the bot to a group, of which the bot hears by `my_chat_member`."""

        def add(world: World) -> None:
            chat.bot_was_kicked = False
            before = {"user": world.bot.json(), "status": "left"}
            content = {
                "chat": chat.json(),
                "from": self._user.json(),
                "date": int(world.now()),
                "old_chat_member": before,
                "new_chat_member": before | {"status": "member"},
            }
            world.add_update("my_chat_member", content)

        self._do(add)

    def _do(self, function: Callable[[World], T]) -> T:
        result: T = self._change(function)
        return result


def _bot_sees(world: World, chat: Chat, message: SentMessage, reply_to: SentMessage | None) -> bool:
    """Apply the privacy mode of groups."""
    if not chat.is_group or chat.bot_is_admin or not world.privacy:
        return True
    is_reply = reply_to is not None and reply_to.sender.id == BOT_ID
    return message.text.startswith("/") or f"@{BOT_NAME}" in message.text or is_reply
