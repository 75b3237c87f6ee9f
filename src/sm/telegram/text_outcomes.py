"""Tells people what became of their texts to sessions: with a reaction to the text, else with a reply.

A text is told twice at most: that it waits, if it is not delivered soon, and its outcome. The row of a text is removed
in the transaction that queues the outcome, so that neither a crash nor a restart repeats or loses it.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from sm.core.labels import label
from sm.core.messages import Message
from sm.core.models import Session
from sm.core.states import MessageState
from sm.core.telegram_model import BotMethod, NewCall, WatchedText, message_object
from sm.core.telegram_text import escaped
from sm.core.text import folded
from sm.errors import NotFound, NotPermitted, StorageFull
from sm.services import ChatUsers, Messages, Reads, Telegram
from sm.telegram.replies import Place

log = logging.getLogger(__name__)

WAITS_AFTER_S = 2.0
"""A text that is delivered earlier is told only its outcome."""
_FULL_PAUSE_S = 5.0
_ARRIVED = (MessageState.SUBMITTED, MessageState.ACKNOWLEDGED)
_WAITING = (MessageState.QUEUED, MessageState.DELIVERING)
_REACTIONS = {
    MessageState.QUEUED: "👀",
    MessageState.DELIVERING: "👀",
    MessageState.SUBMITTED: "👍",
    MessageState.ACKNOWLEDGED: "👍",
    MessageState.UNCONFIRMED: "🤔",
}
_FAILED = "👎"


def outcome_words(message: Message, session: Session | None) -> str:
    """The state of a message in one line, in the words of `sm send`."""
    name = message.session_id if session is None else label(session)
    reason = folded(message.reason or "")
    if message.state in _ARRIVED:
        return f"Input sent to session {name}"
    if message.state in _WAITING:
        return (
            f"{message.state} ({reason}), message {message.id}" if reason else f"queued, message {message.id}"
        )
    if message.state is MessageState.UNCONFIRMED:
        return f"typed, not confirmed, message {message.id} to session {name}: {reason}"
    return f"message {message.id} to session {name} is {message.state}: {reason}"


class TextOutcomes:
    """One task. `clock` is monotonic."""

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        store: Reads,
        telegram: Telegram,
        users: ChatUsers,
        messages: Messages,
    ) -> None:
        self._store = store
        self._telegram = telegram
        self._users = users
        self._messages = messages
        self._clock = clock
        self._since: dict[int, float] = {}
        """The time at which each text was first seen."""

    async def run(self) -> None:
        """Tell outcomes until cancelled."""
        telegram = self._telegram
        while True:
            watched = telegram.watched
            now = self._clock()
            self._since = {number: self._since.get(number, now) for number in watched}
            if due := [text for text in watched.values() if self._is_due(text, now)]:
                for text in due:
                    try:
                        await self._tell(text)
                    except Exception:  # a defect must not stop all later outcomes
                        log.exception("failed to tell the outcome of message %d", text.id)
                        await telegram.tell(text, [], is_over=True)
                continue
            waits = [
                self._since[text.id] + WAITS_AFTER_S - now for text in watched.values() if not text.is_told
            ]
            await self._store.wait_until(
                lambda: telegram.watched is not watched or any(map(telegram.is_final, watched)),  # noqa: B023
                max(0.0, min(waits)) if waits else None,
            )

    def _is_due(self, text: WatchedText, now: float) -> bool:
        waits = not text.is_told and now - self._since[text.id] >= WAITS_AFTER_S
        return waits or self._telegram.is_final(text.id)

    async def _tell(self, text: WatchedText) -> None:
        try:
            caller = self._users.caller(text.user)
            message = await self._messages.read(caller, text.id)
        except (NotPermitted, NotFound):  # the user was revoked, or the session removed
            await self._telegram.tell(text, [], is_over=True)
            return
        is_over = message.state not in _WAITING
        try:
            await self._telegram.tell(text, await self._calls(text, message), is_over=is_over)
        except StorageFull as error:
            log.warning("postponed the outcome of a text: %s", error.message)
            await asyncio.sleep(_FULL_PAUSE_S)
            return
        if is_over and message.state not in _ARRIVED:
            await self._messages.acknowledge(caller, message)

    async def _calls(self, text: WatchedText, message: Message) -> Sequence[NewCall]:
        session = self._store.sessions.get(message.session_id or "")
        about = message_object(message.id)
        words = outcome_words(message, session)
        replies = await self._telegram.messages_of(about)
        reply = next((number for chat, number in replies if chat == text.chat_id), None)
        if reply is not None:  # this chat takes no reactions, so the person was told with a reply
            parameters = {"message_id": reply, "text": escaped(words), "parse_mode": "HTML"}
            return [NewCall(text.chat_id, BotMethod.EDIT_MESSAGE_TEXT, parameters)]
        place = Place(text.chat_id, text.thread_id, text.text_id)
        said = {**place.parameters, "text": escaped(words), "parse_mode": "HTML"}
        emoji = _REACTIONS.get(message.state, _FAILED)
        needs_words = message.state not in (*_ARRIVED, *_WAITING)
        reaction = NewCall(
            text.chat_id,
            BotMethod.SET_MESSAGE_REACTION,
            # The sender makes the reply if the chat refuses the reaction.
            {"message_id": text.text_id, "reaction": emoji, "instead": None if needs_words else said},
            subject=f"reaction {message.id}",
            about=about,
        )
        if not needs_words:
            return [reaction]
        return [reaction, NewCall(text.chat_id, BotMethod.SEND_MESSAGE, said, subject=about, about=about)]
