"""Preferences of chats: sessions that a chat follows, and sessions whose reports make no sound."""

from sm.store.connection import Read
from sm.store.writes import Writes

EVERYTHING = ""
"""In place of the id of a session: the whole chat is muted."""


class PreferenceWrites(Writes):
    """Writes preferences of chats in a transaction."""

    def follow(self, chat_id: int, session_id: str) -> None:
        self._tx.write(
            "INSERT OR IGNORE INTO telegram_follows (chat_id, session_id, at) VALUES (?, ?, ?)",
            (chat_id, session_id, self._tx.now),
        )

    def unfollow(self, chat_id: int, session_id: str) -> None:
        self._tx.write(
            "DELETE FROM telegram_follows WHERE chat_id = ? AND session_id = ?", (chat_id, session_id)
        )

    def mute(self, chat_id: int, session_id: str, until: str | None) -> None:
        """Mute until that time, or unmute if None."""
        place = (chat_id, session_id)
        if until is None:
            self._tx.write("DELETE FROM telegram_mutes WHERE chat_id = ? AND session_id = ?", place)
            return
        sql = "INSERT OR REPLACE INTO telegram_mutes (chat_id, session_id, until) VALUES (?, ?, ?)"
        self._tx.write(sql, (*place, until))

    def move(self, old: int, new: int) -> None:
        """Keep the preferences of a group in the supergroup that replaced it."""
        self._tx.write("UPDATE OR REPLACE telegram_follows SET chat_id = ? WHERE chat_id = ?", (new, old))
        self._tx.write("UPDATE OR REPLACE telegram_mutes SET chat_id = ? WHERE chat_id = ?", (new, old))

    def forget(self, session_id: str) -> None:
        """Remove the preferences about a removed session."""
        self._tx.write("DELETE FROM telegram_follows WHERE session_id = ?", (session_id,))
        self._tx.write("DELETE FROM telegram_mutes WHERE session_id = ?", (session_id,))


class PreferenceReads:
    """Reads of committed preferences."""

    def __init__(self, read: Read) -> None:
        self._read = read

    async def followers(self, session_id: str) -> frozenset[int]:
        """The chats that follow the session."""
        rows = await self._read("SELECT chat_id FROM telegram_follows WHERE session_id = ?", (session_id,))
        return frozenset(int(row[0]) for row in rows)

    async def followed(self, chat_id: int) -> frozenset[str]:
        """The ids of the sessions that the chat follows."""
        rows = await self._read("SELECT session_id FROM telegram_follows WHERE chat_id = ?", (chat_id,))
        return frozenset(str(row[0]) for row in rows)

    async def is_muted(self, chat_id: int, session_id: str, now: str) -> bool:
        rows = await self._read(
            "SELECT 1 FROM telegram_mutes WHERE chat_id = ? AND session_id IN (?, ?) AND until > ? LIMIT 1",
            (chat_id, session_id, EVERYTHING, now),
        )
        return bool(rows)
