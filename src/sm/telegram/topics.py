"""Makes the topics of sessions when a message needs one, and keeps their titles and states.

The row of a topic says `making` before the call that makes it. A call whose answer was lost is made once more. After a
crash between both the topic may exist, so none is made in its place: the messages of the session reply to the first one
instead. A topic that a person deleted is made once more, by the next message.
"""

from collections.abc import Sequence
from dataclasses import replace

from sm.core.labels import label
from sm.core.lifecycle import is_ended
from sm.core.models import Session
from sm.core.telegram_model import SENDS_ONCE, BotMethod, Need, NewCall, Outgoing, session_object, topic_of
from sm.core.telegram_text import cut_utf16, visible
from sm.core.telegram_threads import TOPIC, TOPIC_CALLS_MAX, Topic, TopicState
from sm.services import Reads, Telegram
from sm.telegram.forum import Forum
from sm.telegram.outcome import AnswerLost, Done, Outcome, Rejected

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

    def __init__(self, telegram: Telegram, store: Reads, forum: Forum) -> None:
        self._telegram = telegram
        self._queue = telegram.queue
        self._store = store
        self._forum = forum

    async def recover(self) -> None:
        """Handle the topics that the end of the daemon left half made."""
        await self._queue.recover_topics()

    async def begin(self, call: Outgoing) -> Outgoing | None:
        """The call that must make the topic first, recorded as begun, or None if the call needs no new topic."""
        if call.method not in SENDS_ONCE or not self._forum.can_manage:
            return None
        session = self._store.sessions.get(topic_of(call)[0])
        if session is None:
            return None
        title = topic_title(session)

        def begin(topic: Topic) -> Topic | None:
            if not topic.is_possible:
                return None
            making = TopicState.MAKING
            return replace(topic, state=making, calls=topic.calls + 1, title=title, is_closed=False)

        if not await self._queue.begin_topic(call, begin):
            return None
        return replace(call, method=BotMethod.CREATE_FORUM_TOPIC, parameters={"name": title}, lost_answers=0)

    async def record(self, call: Outgoing, outcome: Outcome) -> None:
        """Record the outcome of the call that makes the topic for `call`."""

        def change(topic: Topic) -> tuple[Topic, Sequence[NewCall]]:
            not_made = replace(topic, state=TopicState.WANTED, calls=topic.calls - 1)
            match outcome:
                case Done(thread_id=int(thread_id)):
                    topic = replace(topic, state=TopicState.MADE, thread_id=thread_id)
                    session = self._store.sessions.get(topic.session_id)
                    if session is None:
                        return topic, ()
                    calls, topic = topic_changes(topic, session)  # the session may have ended meanwhile
                    return topic, calls
                case AnswerLost():
                    return _after_loss(topic), ()
                case Rejected() if not outcome.is_no_right_to_topics:
                    return replace(not_made, state=TopicState.LOST), ()
                case _:
                    return not_made, ()

        await self._queue.change_topic(call, change)
        if isinstance(outcome, Rejected) and outcome.is_no_right_to_topics:
            await self._forum.refuse(outcome.reason)

    async def placed(self, call: Outgoing) -> Outgoing | None:
        """The call with its thread, or as a reply to the first message. None if it changes a topic that is gone."""
        session_id, chat_id = topic_of(call)
        parameters = {name: value for name, value in call.parameters.items() if name != TOPIC}
        topic = await self._telegram.threads.topic(session_id, chat_id)
        if topic is not None and topic.thread_id is not None:
            parameters["message_thread_id"] = topic.thread_id
        elif call.method not in SENDS_ONCE:
            return None
        else:
            for about in dict.fromkeys((session_object(session_id), call.about or "")):
                found = await self._telegram.messages_of(about)
                first = next((message for chat, message in found if chat == chat_id), None)
                if first is not None:
                    parameters["reply_to"] = first
                    break
        return replace(call, parameters=parameters)

    async def deleted(self, call: Outgoing) -> None:
        """A person deleted the topic: let the call wait, which makes a new one, once."""
        await self._queue.change_topic(call, lambda topic: (_after_loss(topic), ()), again=True)


def _after_loss(topic: Topic) -> Topic:
    state = TopicState.WANTED if topic.calls < TOPIC_CALLS_MAX else TopicState.LOST
    return replace(topic, state=state, thread_id=None, is_closed=False)
