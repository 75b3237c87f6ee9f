"""Search in the texts of the sessions that the caller may read."""

import asyncio

from sm.capabilities.search.operations import SearchedWords
from sm.capabilities.search.query_words import excerpt, searched_words
from sm.capabilities.search.tables import PART
from sm.core.labels import label
from sm.errors import UsageError
from sm.kernel import OperationCall
from sm.policy.relations import is_unrestricted
from sm.sessions.authorizer import Authorizer
from sm.store import Store
from sm.store.history import may_be_below
from sm.wire_types.search import FoundView, SearchType


class Search:
    def __init__(self, store: Store, authorizer: Authorizer) -> None:
        self._store = store
        self._authorizer = authorizer

    async def find(self, call: OperationCall) -> list[FoundView]:
        """The best texts with all of the words. Raises UsageError when there is no letter and no digit."""
        asked: SearchedWords = call.arguments
        looked_for = searched_words(asked.words)
        if not looked_for:
            raise UsageError("the search has no word", "name at least one word with a letter or a digit")
        known = self._store.sessions
        readable = None
        if not is_unrestricted(call.caller):
            readable = [s.id for s in known.values() if self._authorizer.may_read(call.caller, s)]
            principal = self._authorizer.principal(call.caller)
            readable += await self._store.history.ids(may_be_below(principal))
        found = await self._store.part(PART).find(
            asked.words, sessions=readable, type=asked.type, since=asked.since, limit=asked.limit
        )
        excerpts = await asyncio.to_thread(lambda: [excerpt(f.text, looked_for) for f in found])
        return [
            FoundView(session.id, label(session), session.status, SearchType(f.type), f.at, shown)
            for f, shown in zip(found, excerpts, strict=True)
            if (session := known.get(f.session_id)) is not None
        ]
