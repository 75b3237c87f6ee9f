"""Tells the operator what concerns no session: in the inbox, by command and webhooks, and in the chats of owners."""

from typing import Any

from sm.config import Config
from sm.core.effects import EffectKind
from sm.core.messages import SM_ITSELF, Message
from sm.core.states import MessageMode, MessageState
from sm.core.telegram_model import BotMethod, Need, NewCall
from sm.core.telegram_text import pages
from sm.store import Transaction

_PAGE_MAX = 3900
"""UTF-16 code units of a message to Telegram: less than TEXT_MAX, so that a repeated one can be marked."""


async def announce(tx: Transaction, config: Config, type: str, text: str, occasion: str) -> None:
    """Tell the operator a text of several lines. `type`: that of `notify.webhooks`. `occasion`: a unique name."""
    message = Message(
        id=tx.mail.new_id("messages"),
        session_id=None,
        sender=SM_ITSELF,
        mode=MessageMode.AUTO,
        state=MessageState.QUEUED,
        created_at=tx.now,
        state_at=tx.now,
    )
    tx.mail.add_message(message, text)
    for owner in config.telegram.owner_ids if config.telegram.token_file is not None else ():
        for page in pages(text.split("\n"), _PAGE_MAX):
            await tx.telegram.queue(NewCall(owner, BotMethod.SEND_MESSAGE, {"text": page}, Need.ENDING))
    newest = await tx.newest_session()
    if newest is None:  # an effect belongs to a session
        return
    body: dict[str, Any] = {"type": type, "text": text, "occasion": occasion, "timestamp": tx.now}
    if config.notify.command is not None:
        await tx.effect(EffectKind.COMMAND, newest.id, {"body": body}, tx.now)
    for webhook in config.notify.webhooks:
        if type in webhook.events:
            await tx.effect(EffectKind.WEBHOOK, newest.id, {"url": webhook.url, "body": body}, tx.now)
