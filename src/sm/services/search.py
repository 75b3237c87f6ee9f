"""Search in the texts of the sessions that the caller may read."""

import asyncio
from dataclasses import dataclass

from sm.core.excerpt import excerpt
from sm.core.models import Caller, Session
from sm.errors import UsageError
from sm.policy.access import is_unrestricted
from sm.services.sessions import Sessions
from sm.store import Store
from sm.store.search import searched_words


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
        looked_for = searched_words(words)
        if not looked_for:
            raise UsageError("the search has no word", "name at least one word with a letter or a digit")
        known = self._store.sessions
        readable = None
        if not is_unrestricted(caller):
            readable = [s.id for s in known.values() if self._sessions.may_read(caller, s)]
        found = await self._store.search.find(words, sessions=readable, type=type, since=since, limit=limit)
        excerpts = await asyncio.to_thread(lambda: [excerpt(f.text, looked_for) for f in found])
        return [
            SearchHit(known[f.session_id], f.type, f.at, shown)
            for f, shown in zip(found, excerpts, strict=True)
            if f.session_id in known
        ]
