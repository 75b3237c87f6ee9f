"""The sessions in memory: which of them are there, and when the others leave (ADR 24)."""

import asyncio
from collections.abc import Callable, Iterable

from sm.core.attention import UNSEEN as UNSEEN_GROUPS
from sm.core.attention import attention
from sm.core.lifecycle import is_ended
from sm.core.models import Session
from sm.core.session_index import SessionIndex, is_unfinished
from sm.core.timestamps import later
from sm.store.batch import Changes
from sm.store.change_signal import ChangeSignal
from sm.store.connection import Read
from sm.store.history import READ_OF_KEPT, SELECT, UNFINISHED, UNSEEN, History, loaded
from sm.store.message_rows import MailReads

_KEPT = f"{SELECT} WHERE removed = 0 AND ({UNFINISHED} OR status_at >= ? OR (status_at >= ? AND {UNSEEN}))"
_KEPT += " ORDER BY created_at, id"
"""The sessions that are in memory, with those that unfinished work needs, and the ancestors of all."""
_LOADED_AT_ONCE = 50


def _is_recent(session: Session, lately: str, unseen: str) -> bool:
    """True for a session that `_KEPT` reads: it is live, or ended lately, or the operator has not seen it."""
    if is_unfinished(session) or not is_ended(session.status) or session.status_at >= lately:
        return True
    return session.status_at >= unseen and attention(session, (), unseen) in UNSEEN_GROUPS


class SessionMemory:
    """`index` has the sessions in memory, as committed, and `history` finds the others."""

    lately_s = 86_400.0
    """For how long every session stays in memory after its end."""
    unseen_s = 7 * 86_400.0
    """For how long sessions that the operator has not seen stay there."""

    def __init__(
        self,
        path: str,
        read: Read,
        mail: MailReads,
        now: Callable[[], str],
        committed: ChangeSignal,
    ) -> None:
        self._read = read
        self._mail = mail
        self._now = now
        self._committed = committed
        self.index = SessionIndex()
        self.history = History(path, read, self.index.sessions)
        self.index.sessions.past = self.history
        self._by_token: dict[str, str] = {}
        self._followers_of_removals: list[set[str]] = []
        self._followers_of_leaving: list[set[str]] = []

    async def load(self) -> None:
        for row in await self._read(_KEPT, self._limits()):
            self._load_session(loaded(row))

    def load_needed(self) -> None:
        """Load what unfinished work needs, which the store has read in between."""
        self._load_needed(self.index.sessions)

    def _load_session(self, session: Session) -> None:
        self.index.load(session)
        if session.token_hash is not None:
            self._by_token[session.token_hash] = session.id

    def _load_needed(self, session_ids: Iterable[str]) -> None:
        for session_id in self._needed(session_ids):
            if self.index.sessions.is_kept(session_id):
                continue
            if (session := self.history.find(session_id)) is not None:
                self._load_session(session)
        self.history.changed()

    def _limits(self) -> tuple[str, str]:
        """The parameters of `_KEPT`."""
        now = self._now()
        return later(now, -self.lately_s), later(now, -self.unseen_s)

    async def keep_unseen(self, unseen_s: float) -> None:
        """Set `unseen_s`, and read the sessions that belong into memory because of that.

        `forget_old` removes those that do not any more.
        """
        if unseen_s == self.unseen_s:
            return
        self.unseen_s = unseen_s
        ids = [row["id"] for row in await self._read(_KEPT, self._limits())]
        for begin in range(0, len(ids), _LOADED_AT_ONCE):
            self._load_needed(ids[begin : begin + _LOADED_AT_ONCE])
            self._committed.changed()
            await asyncio.sleep(0)

    def _needed(self, kept: Iterable[str]) -> set[str]:
        """The sessions that unfinished work names, and the ancestors of these and of the `kept` ones."""
        open, sessions = self._mail.open, self.index.sessions
        # Not the senders of messages and the sessions of notices: an operator may leave these unread for years.
        named = {m.session_id for m in open.messages.values()}
        named |= {r.session_id for r in open.requests.values()} | {
            e.session_id for e in open.effects.values()
        }
        named |= {subject for subject, _ in open.timers}
        named |= {
            session_id for part, rows in open.parts.items() if part.keeps_sessions for session_id in rows
        }
        found, needed = [*kept, *filter(None, named)], set[str]()
        while found:
            session = sessions.get(session_id := found.pop())
            if session is None or session_id in needed:
                continue
            needed.add(session_id)
            found += [above for above in (session.parent_id, session.bound_to) if above is not None]
        return needed

    def forget_old(self) -> list[str]:
        """Remove from memory the sessions that are no longer needed there, and return their ids."""
        lately, unseen = self._limits()
        sessions = self.index.sessions
        recent = [s.id for s in sessions.values() if _is_recent(s, lately, unseen)]
        needed = self._needed(recent)
        old = [session_id for session_id in sessions if session_id not in needed]
        for session_id in old:
            gone = self.index.forget(session_id)
            if gone is not None:
                self._by_token.pop(gone.token_hash or "", None)
        for follower in self._followers_of_leaving:
            follower |= {*old}
        if old:
            self.history.grew()
            self._committed.changed()
        return old

    def publish(self, changes: Changes) -> None:
        """Apply the committed changes."""
        kept = (session for session in changes.sessions.values() if session.id not in changes.inserted)
        if changes.removed or any(self._changes_history(session) for session in kept):
            self.history.changed()
        elif changes.inserted:
            names = {changes.sessions[session_id].friendly_name for session_id in changes.inserted}
            self.history.follow_new(name for name in names if name is not None)
        for session in changes.sessions.values():
            self._put(session)
        for follower in self._followers_of_removals:
            follower |= changes.removed
        for session_id in changes.removed:
            gone = self.index.remove(session_id)
            if gone is not None:
                self._by_token.pop(gone.token_hash or "", None)
        for name in changes.left_names:
            self.index.share(name)

    def _put(self, session: Session) -> None:
        before = self.index.sessions.kept(session.id)
        self.index.put(session)
        if before is None or before.token_hash != session.token_hash:
            if before is not None:
                self._by_token.pop(before.token_hash or "", None)
            if session.token_hash is not None:
                self._by_token[session.token_hash] = session.id

    def _changes_history(self, session: Session) -> bool:
        """True if the session was in the history, or changes what was read there (`READ_OF_KEPT`)."""
        before = self.index.sessions.kept(session.id)
        return before is None or READ_OF_KEPT(before) != READ_OF_KEPT(session)

    def follow_removals(self) -> set[str]:
        """A set that gets the id of each session that is removed. Its owner removes the ids."""
        removed: set[str] = set()
        self._followers_of_removals.append(removed)
        return removed

    def follow_leaving(self) -> set[str]:
        """A set that gets the id of each session that is no longer kept in memory. Its owner removes the ids."""
        left: set[str] = set()
        self._followers_of_leaving.append(left)
        return left

    def session_of_token(self, token_hash: str) -> Session | None:
        """The session in memory, live or ended, that owns the token with this hash, as committed."""
        return self.index.sessions.get(self._by_token.get(token_hash, ""))
