"""Topics, progress cards and the forum in the database."""

from sm.core.telegram_threads import ForumFacts, ProgressCard, Topic, TopicState
from sm.store.connection import Read
from sm.store.rows import FORUMS, PROGRESS_CARDS, TOPICS, insertion
from sm.store.writes import Writes

_ONE_TOPIC = f"{TOPICS.select} WHERE session_id = ? AND chat_id = ?"


class ThreadWrites(Writes):
    """Writes topics and progress cards in a transaction."""

    async def topic(self, session_id: str, chat_id: int) -> Topic:
        """The topic of the session in the chat; a new one that is wanted if there is no row."""
        rows = await self._tx.read(_ONE_TOPIC, (session_id, chat_id))
        return TOPICS.load(rows[0]) if rows else Topic(session_id, chat_id)

    def put_topic(self, topic: Topic) -> None:
        """Add the topic, or replace the row of its session."""
        self._tx.write(*insertion(TOPICS.name, TOPICS.row(topic), verb="INSERT OR REPLACE"))

    def queued_topic(self, topic: Topic) -> None:
        """Record the title and the state that the waiting calls give to the topic."""
        self._tx.write(
            "UPDATE telegram_topics SET title = ?, is_closed = ? WHERE session_id = ? AND chat_id = ?",
            (topic.title, topic.is_closed, topic.session_id, topic.chat_id),
        )

    def lose_unfinished_topics(self) -> None:
        """Make no topic in place of one whose call the end of the daemon interrupted: it may exist."""
        self._tx.write(
            "UPDATE telegram_topics SET state = ? WHERE state = ?", (TopicState.LOST, TopicState.MAKING)
        )

    def put_forum(self, forum: ForumFacts) -> None:
        self._tx.write(*insertion(FORUMS.name, FORUMS.row(forum), verb="INSERT OR REPLACE"))

    def put_card(self, card: ProgressCard) -> None:
        """Add the card, or change its text and its state. The message of a known card stays."""
        conflict = "ON CONFLICT (session_id, chat_id) DO UPDATE SET shown = excluded.shown, is_live = excluded.is_live"
        self._tx.write(*insertion(PROGRESS_CARDS.name, PROGRESS_CARDS.row(card), conflict=conflict))

    def sent_card(self, session_id: str, chat_id: int, message_id: int) -> None:
        self._tx.write(
            "UPDATE telegram_progress SET message_id = ? WHERE session_id = ? AND chat_id = ?",
            (message_id, session_id, chat_id),
        )

    def forget_card(self, session_id: str, chat_id: int) -> None:
        """Remove a card whose message does not exist. The next work of the session makes a new one."""
        self._tx.write(
            "DELETE FROM telegram_progress WHERE session_id = ? AND chat_id = ?", (session_id, chat_id)
        )

    def migrate_chat(self, old: int, new: int) -> None:
        for table in (TOPICS.name, PROGRESS_CARDS.name):
            self._tx.write(f"UPDATE OR REPLACE {table} SET chat_id = ? WHERE chat_id = ?", (new, old))  # noqa: S608 - constant names

    def forget(self, session_id: str) -> None:
        """Remove the rows of a removed session."""
        for table in (TOPICS.name, PROGRESS_CARDS.name):
            self._tx.write(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))  # noqa: S608 - constant names


class ThreadReads:
    """Reads of committed topics and cards."""

    def __init__(self, read: Read) -> None:
        self._read = read

    async def topic(self, session_id: str, chat_id: int) -> Topic | None:
        rows = await self._read(_ONE_TOPIC, (session_id, chat_id))
        return TOPICS.load(rows[0]) if rows else None

    async def session_of_thread(self, chat_id: int, thread_id: int) -> str | None:
        """The session whose topic the thread is."""
        rows = await self._read(
            "SELECT session_id FROM telegram_topics WHERE chat_id = ? AND thread_id = ?", (chat_id, thread_id)
        )
        return str(rows[0][0]) if rows else None

    async def forum(self, chat_id: int) -> ForumFacts | None:
        rows = await self._read(f"{FORUMS.select} WHERE chat_id = ?", (chat_id,))
        return FORUMS.load(rows[0]) if rows else None

    async def card(self, session_id: str, chat_id: int) -> ProgressCard | None:
        rows = await self._read(
            f"{PROGRESS_CARDS.select} WHERE session_id = ? AND chat_id = ?", (session_id, chat_id)
        )
        return PROGRESS_CARDS.load(rows[0]) if rows else None

    async def live_cards(self) -> list[ProgressCard]:
        rows = await self._read(f"{PROGRESS_CARDS.select} WHERE is_live ORDER BY session_id, chat_id", ())
        return [PROGRESS_CARDS.load(row) for row in rows]
