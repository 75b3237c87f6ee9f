"""Threads of chats that show sessions: topics of a forum, and messages with the progress of a session. Pure data."""

from enum import StrEnum

from sm.core.dataclass import dataclass

TOPIC = "topic"
"""The parameter of a waiting call that names the session in whose topic the message belongs."""
TOPIC_CALLS_MAX = 2
"""Telegram has no key against repetition of createForumTopic, so this many calls may make topics of one session."""
_PROGRESS = "progress "
PLACEMENT = frozenset({TOPIC, "message_thread_id", "reply_to", "disable_notification"})
"""The parameters that a new text for a waiting message does not change."""


class TopicState(StrEnum):
    WANTED = "wanted"
    """There is no topic. The next message makes one."""
    MAKING = "making"
    """The call began. After a crash nobody knows whether Telegram made the topic."""
    MADE = "made"
    LOST = "lost"
    """No topic is made any more. Messages reply to the first one about the session."""


@dataclass(frozen=True, slots=True)
class Topic:
    """The topic of a session in a forum."""

    session_id: str
    chat_id: int
    state: TopicState = TopicState.WANTED
    calls: int = 0
    """Calls that made a topic, or of which nobody knows whether they did."""
    thread_id: int | None = None
    title: str = ""
    is_closed: bool = False
    """`title` and `is_closed` include the calls that wait."""

    @property
    def is_possible(self) -> bool:
        """A call may make the topic."""
        return self.state is TopicState.WANTED and self.calls < TOPIC_CALLS_MAX


@dataclass(frozen=True, slots=True)
class ForumFacts:
    """The first group of the configuration, as Telegram described it last."""

    chat_id: int
    is_forum: bool
    can_manage: bool
    """The bot may make, close and rename topics."""
    owners: tuple[int, ...] = ()
    """The owners who are members of the group."""
    is_told: bool = False
    """The group was told that the bot may not manage topics."""


@dataclass(frozen=True, slots=True)
class ProgressCard:
    """The message that shows the progress of a session in one chat."""

    session_id: str
    chat_id: int
    message_id: int | None = None
    """None if the message is not sent yet."""
    shown: str = ""
    """The newest text that was queued."""
    is_live: bool = True
    """True if the text follows the session, False if the message shows the end of the session."""


def progress_subject(session_id: str) -> str:
    """The subject of calls that send or edit the progress card of a session."""
    return f"{_PROGRESS}{session_id}"


def session_of_progress(subject: str | None) -> str | None:
    """The session of a progress card, by the subject of a call, or None for another call."""
    if subject is None or not subject.startswith(_PROGRESS):
        return None
    return subject.removeprefix(_PROGRESS)
