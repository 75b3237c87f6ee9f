"""All sessions by id, with indexes, so that a daemon with thousands of ended sessions stays as fast as a new one."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from sm.core.lifecycle import is_live
from sm.core.models import Session

PREFIX_MIN = 4
"""The characters that the beginning of an id must have to name a session."""


def is_unfinished(session: Session) -> bool:
    """True while the session is live or its process runs. Only `sm restore` makes an ended session unfinished."""
    return session.exit is None or is_live(session.status)


def oldest_first(session: Session) -> tuple[str, str]:
    """The key by which sessions are sorted by age; sessions of the same time by id."""
    return session.created_at, session.id


class SessionIndex:
    """Sessions by id, by name and by the start of their id, and the unfinished ones.

    Sets `shares_name` of each session.
    """

    def __init__(self, sessions: Iterable[Session] = ()) -> None:
        self._sessions: dict[str, Session] = {}
        self._unfinished: dict[str, Session] = {}
        self._by_word: dict[str, dict[str, None]] = {}
        """The ids of the sessions that each word names, oldest first."""
        self._by_friendly_name: dict[str, set[str]] = {}
        self._ids: list[str] = []
        """Every id, sorted."""
        for session in sessions:
            self.put(session)

    @property
    def sessions(self) -> Mapping[str, Session]:
        """Every session by id, oldest first."""
        return self._sessions

    @property
    def unfinished(self) -> Mapping[str, Session]:
        """The sessions by id for which `is_unfinished` holds, in no fixed order."""
        return self._unfinished

    def named(self, word: str) -> Iterator[Session]:
        """The sessions with this name or friendly name (also without its agent type), oldest first."""
        return (self._sessions[session_id] for session_id in self._by_word.get(word, ()))

    def with_prefix(self, prefix: str) -> Iterator[Session]:
        """The sessions whose id begins with `prefix`."""
        for place in range(bisect_left(self._ids, prefix), len(self._ids)):
            if not self._ids[place].startswith(prefix):
                return
            yield self._sessions[self._ids[place]]

    def put(self, session: Session) -> None:
        """Add the session, or replace the one with its id."""
        before = self._sessions.get(session.id)
        if before is not None and before.friendly_name != session.friendly_name:
            self._leave_name(before)
        self._store(self._join_name(session))
        if before is None:
            insort(self._ids, session.id)
        if before is None or before.friendly_name != session.friendly_name:
            if before is not None:
                self._forget_words(before)
            for word in _words(session):
                self._by_word.setdefault(word, {})[session.id] = None

    def remove(self, session_id: str) -> Session | None:
        """Remove and return the session; None if there is none."""
        gone = self._sessions.pop(session_id, None)
        if gone is not None:
            self._unfinished.pop(session_id, None)
            self._forget_words(gone)
            self._leave_name(gone)
            del self._ids[bisect_left(self._ids, session_id)]
        return gone

    def _store(self, session: Session) -> None:
        self._sessions[session.id] = session
        if is_unfinished(session):
            self._unfinished[session.id] = session
        else:
            self._unfinished.pop(session.id, None)

    def _join_name(self, session: Session) -> Session:
        if session.friendly_name is None:
            return _with_shared_name(session, shared=False)
        ids = self._by_friendly_name.setdefault(session.friendly_name, set())
        if len(ids) == 1:
            (first,) = ids
            if first != session.id:
                self._store(_with_shared_name(self._sessions[first], shared=True))
        ids.add(session.id)
        return _with_shared_name(session, shared=len(ids) > 1)

    def _leave_name(self, session: Session) -> None:
        if session.friendly_name is None:
            return
        ids = self._by_friendly_name[session.friendly_name]
        ids.remove(session.id)
        if len(ids) == 1:
            (last,) = ids
            self._store(_with_shared_name(self._sessions[last], shared=False))
        elif not ids:
            del self._by_friendly_name[session.friendly_name]

    def _forget_words(self, session: Session) -> None:
        for word in _words(session):
            ids = self._by_word[word]
            del ids[session.id]
            if not ids:
                del self._by_word[word]


def short_name(session: Session) -> str | None:
    """The friendly name without the agent type, if the friendly name begins with the agent type."""
    prefix = f"{session.agent_type.lower()}-"
    name = session.friendly_name
    return None if name is None or not name.startswith(prefix) else name.removeprefix(prefix)


def _with_shared_name(session: Session, *, shared: bool) -> Session:
    return session if session.shares_name is shared else replace(session, shares_name=shared)


def _words(session: Session) -> set[str]:
    return {word for word in (session.name, session.friendly_name, short_name(session)) if word}
