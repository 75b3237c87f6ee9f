"""Answers the updates of owners. Everybody else gets no answer."""

import time
from collections.abc import Callable, Collection
from dataclasses import replace

from sm.core.telegram import BotMethod, NewCall, TelegramChat
from sm.store.transaction import Transaction
from sm.telegram.updates import IncomingUpdate, UpdateKind

TOO_OLD_S = 600.0
_TOO_OLD = "This message is too old and was not carried out. Please send it again."
_WELCOME = "This chat is connected to sm."


class OwnerConversation:
    """Handles updates of owners in private chats. `wall` is the time of day."""

    def __init__(self, owners: Collection[int], wall: Callable[[], float] = time.time) -> None:
        self._owners = frozenset(owners)
        self._wall = wall

    async def handle(self, tx: Transaction, update: IncomingUpdate) -> None:
        """Carry out the update in the transaction that records its id."""
        if not self._is_owner(update) or update.chat_id is None:
            return
        chat = await tx.telegram.chat(update.chat_id) or TelegramChat(update.chat_id)
        title = update.chat_title or update.user_name
        tx.telegram.put_chat(replace(chat, kind=update.chat_kind, title=title[:200], seen_at=tx.now))
        if update.kind is not UpdateKind.MESSAGE:
            return
        if update.at is not None and self._wall() - update.at > TOO_OLD_S:
            await tx.telegram.queue(_reply(update, _TOO_OLD))
        elif update.text is not None and update.text.split(maxsplit=1)[:1] == ["/start"]:
            await tx.telegram.queue(_reply(update, _WELCOME))

    def _is_owner(self, update: IncomingUpdate) -> bool:
        """Only a person who speaks for himself, in a private chat."""
        return (
            update.user_id in self._owners
            and update.is_private
            and not (update.is_bot or update.is_forwarded or update.is_anonymous)
        )


def _reply(update: IncomingUpdate, text: str) -> NewCall:
    return NewCall(update.chat_id, BotMethod.SEND_MESSAGE, {"text": text, "reply_to": update.message_id})
