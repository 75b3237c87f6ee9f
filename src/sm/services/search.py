"""Search in the texts of the sessions that the caller may read."""

from dataclasses import dataclass

from sm.core.excerpt import excerpt
from sm.core.models import Caller, Session
from sm.errors import UsageError
from sm.policy.access import is_unrestricted
from sm.services.sessions import Sessions
from sm.store import Store
from sm.store.search import fts_query


@dataclass(frozen=True, slots=True)
class SearchHit:
    session: Session
    type: str
    at: str
    excerpt: str


class Search:
    def __init__(self, store: Store, sessions: Sessions) -> None:
        self._store = store
        self._sessions = sessions

    async def find(
        self, caller: Caller, words: str, *, type: str | None, since: str | None, limit: int
    ) -> list[SearchHit]:
        """The best texts with all of the words. Raises UsageError when `words` has no letter and no digit."""
        if fts_query(words) is None:
            raise UsageError("the search has no word", "name at least one word with a letter or a digit")
        known = self._store.sessions
        readable = None
        if not is_unrestricted(caller):
            readable = [s.id for s in known.values() if self._sessions.may_read(caller, s)]
        found = await self._store.search.find(words, sessions=readable, type=type, since=since, limit=limit)
        return [
            SearchHit(known[f.session_id], f.type, f.at, excerpt(f.text, words))
            for f in found
            if f.session_id in known
        ]
