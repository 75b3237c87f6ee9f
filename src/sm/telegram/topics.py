"""Makes the topics of sessions when a message needs one, and keeps their titles and states.

The row of a topic says `making` before the call that makes it. A call whose answer was lost is made once more. After a
crash between both the topic may exist, so none is made in its place: the messages of the session reply to the first one
instead. A topic that a person deleted is made once more, by the next message.
"""

from dataclasses import replace

from sm.core.labels import label
from sm.core.lifecycle import is_ended
from sm.core.models import Session
from sm.core.telegram import SENDS_ONCE, BotMethod, Need, NewCall, Outgoing, session_object
from sm.core.telegram_threads import TOPIC, TOPIC_CALLS_MAX, Topic, TopicState
from sm.store import Store
from sm.telegram.forum import Forum
from sm.telegram.outcome import AnswerLost, Done, Outcome, Rejected
from sm.telegram.text import cut_utf16, visible

_NAME_MAX = 100
"""UTF-16 code units of the name in a title, which has at most 128."""


def topic_title(session: Session) -> str:
    """`engineer-login`, and `engineer-login: completed` at the end."""
    name = cut_utf16(visible(label(session)), _NAME_MAX)
    return f"{name}: {session.status}" if is_ended(session.status) else name


def topic_changes(topic: Topic, session: Session) -> tuple[list[NewCall], Topic]:
    """The calls that give the topic the title and the state of its session, and the topic after them."""
    if topic.state is not TopicState.MADE:
        return [], topic
    title, ended, calls = topic_title(session), is_ended(session.status), []

    def call(method: BotMethod, **parameters: str) -> None:
        calls.append(NewCall(topic.chat_id, method, {TOPIC: session.id, **parameters}, Need.ENDING))

    if topic.is_closed and not ended:
        call(BotMethod.REOPEN_FORUM_TOPIC)
    if topic.title != title:
        call(BotMethod.EDIT_FORUM_TOPIC, name=title)
    if ended and not topic.is_closed:
        call(BotMethod.CLOSE_FORUM_TOPIC)
    return calls, replace(topic, title=title, is_closed=ended)


class Topics:
    """The topics for the sender, which makes the calls."""

    def __init__(self, store: Store, forum: Forum) -> None:
        self._store = store
        self._forum = forum

    async def recover(self) -> None:
        """Handle the topics that the end of the daemon left half made."""
        async with self._store.transaction() as tx:
            tx.telegram.threads.lose_unfinished_topics()

    async def begin(self, call: Outgoing) -> Outgoing | None:
        """The call that must make the topic first, recorded as begun; None: the call needs no new topic."""
        if call.method not in SENDS_ONCE or not self._forum.can_manage:
            return None
        session_id, chat_id = _topic_of(call)
        session = self._store.sessions.get(session_id)
        async with self._store.transaction() as tx:
            topic = await tx.telegram.threads.topic(session_id, chat_id)
            if session is None or not topic.is_possible or call.id not in tx.mail.open.outgoing:
                return None
            title = topic_title(session)
            making = replace(
                topic, state=TopicState.MAKING, calls=topic.calls + 1, title=title, is_closed=False
            )
            tx.telegram.threads.put_topic(making)
        return replace(call, method=BotMethod.CREATE_FORUM_TOPIC, parameters={"name": title}, lost_answers=0)

    async def record(self, call: Outgoing, outcome: Outcome) -> None:
        """Record the outcome of the call that makes the topic for `call`."""
        session_id, chat_id = _topic_of(call)
        async with self._store.transaction() as tx:
            topic = await tx.telegram.threads.topic(session_id, chat_id)
            not_made = replace(topic, state=TopicState.WANTED, calls=topic.calls - 1)
            match outcome:
                case Done(thread_id=int(thread_id)):
                    topic = replace(topic, state=TopicState.MADE, thread_id=thread_id)
                    if (session := self._store.sessions.get(session_id)) is not None:
                        calls, topic = topic_changes(topic, session)  # the session may have ended meanwhile
                        for change in calls:
                            await tx.telegram.queue(change)
                case AnswerLost():
                    topic = _after_loss(topic)
                case Rejected() if not outcome.is_no_right_to_topics:
                    topic = replace(not_made, state=TopicState.LOST)
                case _:
                    topic = not_made
            tx.telegram.threads.put_topic(topic)
        if isinstance(outcome, Rejected) and outcome.is_no_right_to_topics:
            await self._forum.refuse(outcome.reason)

    async def placed(self, call: Outgoing) -> Outgoing | None:
        """The call with its thread, or as a reply to the first message; None: it changes a topic that is not there."""
        session_id, chat_id = _topic_of(call)
        parameters = {name: value for name, value in call.parameters.items() if name != TOPIC}
        topic = await self._store.telegram.threads.topic(session_id, chat_id)
        if topic is not None and topic.thread_id is not None:
            parameters["message_thread_id"] = topic.thread_id
        elif call.method not in SENDS_ONCE:
            return None
        else:
            for about in dict.fromkeys((session_object(session_id), call.about or "")):
                found = await self._store.telegram.messages_of(about)
                first = next((message for chat, message in found if chat == chat_id), None)
                if first is not None:
                    parameters["reply_to"] = first
                    break
        return replace(call, parameters=parameters)

    async def deleted(self, call: Outgoing) -> None:
        """A person deleted the topic: let the call wait, which makes a new one, once."""
        async with self._store.transaction() as tx:
            topic = await tx.telegram.threads.topic(*_topic_of(call))
            tx.telegram.threads.put_topic(_after_loss(topic))
            tx.telegram.again(call)


def _topic_of(call: Outgoing) -> tuple[str, int]:
    """The session and the chat of the topic that the call names."""
    assert call.chat_id is not None  # a topic is in a chat
    return str(call.parameters[TOPIC]), call.chat_id


def _after_loss(topic: Topic) -> Topic:
    state = TopicState.WANTED if topic.calls < TOPIC_CALLS_MAX else TopicState.LOST
    return replace(topic, state=state, thread_id=None, is_closed=False)
