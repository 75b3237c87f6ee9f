"""Decides in which chats and threads people see a session.

A forum shows a session in the topic of its root, for everybody in the group. In a private chat the messages about a
session reply to the first one. Owners who are members of the forum get no copy in their private chats.
"""

from collections.abc import Collection, Mapping
from typing import Any

from sm.config import TelegramSection
from sm.core.dataclass import dataclass
from sm.core.labels import label
from sm.core.models import BridgeUser, Session, ancestors
from sm.core.telegram_model import ANYONE, session_object, telegram_user
from sm.core.telegram_threads import TOPIC
from sm.errors import NotPermitted
from sm.policy.relations import visible
from sm.services import ChatUsers, Reads, Telegram
from sm.telegram.forum import Forum

_HEAD = 80
"""Characters of a report in which a reader looks for the name of the session."""


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread of one chat."""

    chat_id: int
    owner: Session
    """The session whose thread it is: an ancestor of the session that is shown, or the session."""
    user: BridgeUser | None
    """The reader of a private chat, or None for everybody in the forum."""

    @property
    def is_topic(self) -> bool:
        return self.user is None

    @property
    def presser(self) -> int:
        """The only user who may press buttons, or `ANYONE`."""
        return ANYONE if self.user is None else self.chat_id


class Threads:
    """Finds threads. In a forum the sessions that the group follows have topics of their own."""

    def __init__(
        self, section: TelegramSection, forum: Forum, *, store: Reads, telegram: Telegram, users: ChatUsers
    ) -> None:
        self._store = store
        self._telegram = telegram
        self._users = users
        self._topics = section.topics
        self._forum = forum
        self.known = forum.known

    async def of(self, session: Session) -> list[Thread]:
        """The threads that show the session: one in the forum, and one in the chat of each other reader."""
        sessions, found = self._store.sessions, []
        if (chat_id := self._forum.chat_id) is not None:
            is_all = self._topics == "all"
            followed = sessions if is_all else await self._telegram.followed(chat_id)
            found.append(Thread(chat_id, thread_owner(session, sessions, followed), None))
        chats = {chat.chat_id for chat in await self._telegram.chats()}
        for number in self._telegram.users:
            if number in chats and number not in self._forum.owners:
                try:
                    user = self._users.caller(telegram_user(number)).user
                except NotPermitted:  # revoked at this moment
                    continue
                if user is not None and visible(user, session):
                    found.append(Thread(number, thread_owner(session, sessions, (), user), user))
        return found

    @property
    def chats(self) -> list[int]:
        """Every chat that may show a session."""
        forum = self._forum.chat_id
        return [*self._telegram.users, *([] if forum is None else [forum])]

    async def parameters(self, thread: Thread, session: Session) -> dict[str, Any]:
        """The parameters that put a message about the session into the thread."""
        if thread.is_topic:
            return {TOPIC: thread.owner.id}
        found = await self._telegram.messages_of(session_object(session.id))
        first = next((message for chat, message in found if chat == thread.chat_id), None)
        return {} if first is None else {"reply_to": first}


def thread_owner(
    session: Session,
    sessions: Mapping[str, Session],
    followed: Collection[str],
    user: BridgeUser | None = None,
) -> Session:
    """The nearest of the session and its ancestors that is followed, else the root as far as the user sees it."""
    owner = session
    if session.id in followed:
        return session
    for ancestor in ancestors(session, sessions.get):
        if user is not None and not visible(user, ancestor):
            break
        owner = ancestor
        if ancestor.id in followed:
            break
    return owner


def with_name(text: str, session: Session, thread: Thread) -> str:
    """The text of a report, with the name of a descendant in front unless it is there."""
    name = label(session)
    if not thread.is_topic or thread.owner.id == session.id or name in text[:_HEAD]:
        return text
    return f"{name}: {text}"
