"""Sessions by id, with indexes: those in memory, and the others by what finds them in the database."""

from bisect import bisect_left, insort
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from dataclasses import replace
from typing import Protocol, overload

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


class PastSessions(Protocol):
    """Finds sessions that are not in memory, and those that are. Without them, every session is in memory."""

    def find(self, session_id: str) -> Session | None: ...

    def named(self, word: str) -> Sequence[Session]:
        """Find the sessions with this name, or friendly name (also without its agent type)."""

    def with_prefix(self, prefix: str) -> Sequence[Session]: ...

    def has_any(self) -> bool: ...

    def is_shared(self, friendly_name: str) -> bool:
        """Return True if several sessions have the name."""


class KnownSessions(Mapping[str, Session]):
    """Finds every session by id, and iterates over those in memory: live ones, and those that ended lately.

    `in`, `get` and `[]` find any session. `len`, `keys`, `values`, `items` and iterations are of those in memory,
    oldest first. Threads may copy these, as by `list(sessions.values())`, and must ask for no others.
    """

    past: PastSessions | None = None

    def __init__(self) -> None:
        self._kept: dict[str, Session] = {}

    def __getitem__(self, session_id: str) -> Session:
        found = self.get(session_id)
        if found is None:
            raise KeyError(session_id)
        return found

    def __contains__(self, session_id: object) -> bool:
        return isinstance(session_id, str) and self.get(session_id) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def keys(self) -> KeysView[str]:
        return self._kept.keys()

    def values(self) -> ValuesView[Session]:
        return self._kept.values()

    def items(self) -> ItemsView[str, Session]:
        return self._kept.items()

    @overload  # type: ignore[override]  # a default of another type is a mistake
    def get(self, session_id: str, default: None = None) -> Session | None: ...

    @overload
    def get(self, session_id: str, default: Session) -> Session: ...

    def get(self, session_id: str, default: Session | None = None) -> Session | None:
        found = self._kept.get(session_id)
        if found is None and self.past is not None:
            found = self.past.find(session_id)
        return default if found is None else found

    def kept(self, session_id: str) -> Session | None:
        """The session, if it is in memory."""
        return self._kept.get(session_id)

    def is_kept(self, session_id: str) -> bool:
        """True if the session is in memory."""
        return session_id in self._kept

    def put(self, session: Session) -> bool:
        """Keep the session in memory. Returns True if one that is not the newest was added.

        Readers in threads see all sessions at every moment: another order is made in another dict.
        """
        newest = next(reversed(self._kept.values()), session)
        is_late = session.created_at < newest.created_at and session.id not in self._kept
        if is_late:
            ordered = sorted([*self._kept.values(), session], key=lambda known: known.created_at)
            self._kept = {known.id: known for known in ordered}
        else:
            self._kept[session.id] = session
        return is_late

    def forget(self, session_id: str) -> Session | None:
        """Remove the session from memory, and return it; None if it is not there."""
        return self._kept.pop(session_id, None)


class SessionIndex:
    """Sessions by id, by name and by the start of their id, and the unfinished ones.

    Sets `shares_name` of each session.
    """

    def __init__(self, sessions: Iterable[Session] = ()) -> None:
        self._sessions = KnownSessions()
        self._unfinished: dict[str, Session] = {}
        self._by_word: dict[str, dict[str, None]] = {}
        """The ids of the sessions that each word names, oldest first."""
        self._by_friendly_name: dict[str, set[str]] = {}
        self._ids: list[str] = []
        """Every id in memory, sorted."""
        for session in sessions:
            self.put(session)

    @property
    def sessions(self) -> KnownSessions:
        """Every session by id, those in memory oldest first."""
        return self._sessions

    @property
    def unfinished(self) -> Mapping[str, Session]:
        """The sessions by id for which `is_unfinished` holds, in no fixed order."""
        return self._unfinished

    def is_empty(self) -> bool:
        """True if there is no session, also none that ended long ago."""
        return not self._sessions and (self._sessions.past is None or not self._sessions.past.has_any())

    def named(self, word: str) -> list[Session]:
        """The sessions with this name or friendly name (also without its agent type), oldest first."""
        kept = [self._sessions[session_id] for session_id in self._by_word.get(word, ())]
        if self._sessions.past is None:
            return kept
        others = [s for s in self._sessions.past.named(word) if word in words_of(s)]
        return sorted([*kept, *self._past(others)], key=oldest_first)

    def with_prefix(self, prefix: str) -> Iterator[Session]:
        """The sessions whose id begins with `prefix`."""
        for place in range(bisect_left(self._ids, prefix), len(self._ids)):
            if not self._ids[place].startswith(prefix):
                break
            yield self._sessions[self._ids[place]]
        if self._sessions.past is not None:
            yield from self._past(self._sessions.past.with_prefix(prefix))

    def _past(self, found: Iterable[Session]) -> Iterator[Session]:
        return (session for session in found if not self._sessions.is_kept(session.id))

    def load(self, session: Session) -> None:
        """Add a session of the database, whose `shares_name` is right."""
        self._add(session)
        if session.friendly_name is not None:
            self._by_friendly_name.setdefault(session.friendly_name, set()).add(session.id)

    def put(self, session: Session) -> None:
        """Add the session, or replace the one with its id."""
        before = self._sessions.kept(session.id)
        if before is not None and before.friendly_name != session.friendly_name:
            self._leave_name(before)
            self._forget_words(before)
        if before is None:
            self._add(self._join_name(session))
        elif before.friendly_name == session.friendly_name:
            self._store(_with_shared_name(session, shared=before.shares_name))
        else:
            self._store(self._join_name(session))
            self._add_words(session)

    def remove(self, session_id: str) -> Session | None:
        """Remove and return the session; None if it is not in memory."""
        gone = self.forget(session_id)
        if gone is not None and gone.friendly_name is not None:
            self.share(gone.friendly_name)
        return gone

    def forget(self, session_id: str) -> Session | None:
        """Remove the session from memory. It keeps its name."""
        gone = self._sessions.forget(session_id)
        if gone is not None:
            self._unfinished.pop(session_id, None)
            self._forget_words(gone)
            if gone.friendly_name is not None:
                ids = self._by_friendly_name[gone.friendly_name]
                ids.remove(session_id)
                if not ids:
                    del self._by_friendly_name[gone.friendly_name]
            del self._ids[bisect_left(self._ids, session_id)]
        return gone

    def _add(self, session: Session) -> None:
        is_late = self._store(session)
        insort(self._ids, session.id)
        self._add_words(session)
        if is_late:
            for word in words_of(session):
                named = self._by_word[word]
                self._by_word[word] = {known: None for known in self._sessions if known in named}

    def _add_words(self, session: Session) -> None:
        for word in words_of(session):
            self._by_word.setdefault(word, {})[session.id] = None

    def _store(self, session: Session) -> bool:
        """Keep the session in memory. Returns True if one that is not the newest was added."""
        is_late = self._sessions.put(session)
        if is_unfinished(session):
            self._unfinished[session.id] = session
        else:
            self._unfinished.pop(session.id, None)
        return is_late

    def _join_name(self, session: Session) -> Session:
        name = session.friendly_name
        if name is None:
            return _with_shared_name(session, shared=False)
        self._by_friendly_name.setdefault(name, set()).add(session.id)
        self.share(name, session.id)
        return _with_shared_name(session, shared=self._is_shared(name))

    def _leave_name(self, session: Session) -> None:
        if session.friendly_name is not None:
            self._by_friendly_name[session.friendly_name].discard(session.id)
            self.share(session.friendly_name)

    def _is_shared(self, name: str) -> bool:
        if len(self._by_friendly_name.get(name, ())) > 1:
            return True
        return self._sessions.past is not None and self._sessions.past.is_shared(name)

    def share(self, name: str, new: str | None = None) -> None:
        """Set `shares_name` of the sessions with that name, except the `new` one. Call it when an old one loses it."""
        ids = self._by_friendly_name.get(name)
        if ids is None:
            return
        if not ids:
            del self._by_friendly_name[name]
        shared = bool(ids) and self._is_shared(name)
        for session_id in ids - {new}:
            self._store(_with_shared_name(self._sessions[session_id], shared=shared))

    def _forget_words(self, session: Session) -> None:
        for word in words_of(session):
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


def words_of(session: Session) -> set[str]:
    """The names of the session."""
    return {word for word in (session.name, session.friendly_name, short_name(session)) if word}
