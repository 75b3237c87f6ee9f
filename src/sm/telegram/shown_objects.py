"""Finds the sessions and requests that messages of a chat show."""

from contextlib import suppress

from sm.core.dataclass import dataclass
from sm.core.models import Caller
from sm.core.requests import Request
from sm.core.telegram_model import request_object, session_object
from sm.errors import SmError
from sm.services import Messages, Reads, Requests, SeenSessions, Telegram
from sm.telegram.updates import IncomingUpdate


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownObjects:
    telegram: Telegram
    requests: Requests
    messages: Messages
    store: Reads
    seen: SeenSessions

    async def of(self, update: IncomingUpdate) -> str:
        """The object of the message replied to, else the session of the topic; empty for another message."""
        # In a topic, `reply_to` may also be the service message that begins it.
        if found := await self.at(update.chat_id, update.reply_to):
            return found
        if update.chat_id is None or update.thread_id is None:
            return ""
        session = await self.telegram.threads.session_of_thread(update.chat_id, update.thread_id)
        return "" if session is None else session_object(session)

    async def at(self, chat_id: int | None, message_id: int | None) -> str:
        if chat_id is None or message_id is None:
            return ""
        return await self.telegram.object_of(chat_id, message_id) or ""

    async def session_of(self, caller: Caller, request: str) -> str | None:
        try:
            return (await self.requests.find(caller, request)).session_id
        except SmError:
            return None

    async def recipient_of(self, caller: Caller, number: str) -> str | None:
        try:
            return (await self.messages.read(caller, int(number))).session_id
        except SmError:
            return None

    async def look(self, caller: Caller, about: str | None) -> None:
        """Mark the session that a person has read or written about as seen. `about`: the object of the message."""
        kind, _, name = (about or "").partition(" ")
        if kind == "request":
            with suppress(SmError):
                name = (await self.requests.find(caller, name)).session_id
        session = self.store.sessions.get(name)
        if session is not None:
            await self.seen.look(caller, [session])

    async def request(self, caller: Caller, shown: str) -> Request | None:
        """The request that is shown, if the caller may see it. `shown`: the object of the message."""
        if not shown.startswith(request_object("")):
            return None
        try:
            return await self.requests.find(caller, shown.removeprefix(request_object("")))
        except SmError:
            return None
