"""Records which ended sessions the operator has looked at."""

import logging
from collections.abc import Iterable, Sequence

from sm.config import Config
from sm.core.attention import is_unseen, unseen_since
from sm.core.models import Caller, RequestKey, Session
from sm.core.statuses import Status
from sm.errors import StorageFull
from sm.operations.session_operations import MARK_SEEN
from sm.policy.relations import is_unrestricted
from sm.sessions.authorizer import Authorizer
from sm.sessions.restore import is_restored_by_all
from sm.state.losses import LOST_TOGETHER
from sm.store import Store
from sm.store.history import Chosen, among, texts

log = logging.getLogger(__name__)


_AT_ONCE = 200
_UNSEEN = "(seen_at IS NULL OR seen_at < status_at)"


class SeenSessions:
    """Sets `Session.seen_at`. A session is seen until it ends again."""

    def __init__(self, store: Store, authorizer: Authorizer, config: Config) -> None:
        self._store = store
        self._authorizer = authorizer
        self._config = config

    def since(self, caller: Caller) -> str | None:
        """Return `unseen_since` of `core.attention` for a caller."""
        return unseen_since(self._store.now(), self._config.unseen_days) if is_unrestricted(caller) else None

    def lost(self, caller: Caller, sessions: Iterable[Session]) -> list[Session]:
        """The sessions that a loss of terminals ended, that the operator has not seen and may restore together."""
        if not is_unrestricted(caller):
            return []
        return [session for session in sessions if is_unseen(session) and is_restored_by_all(session)]

    async def count_lost(self, caller: Caller, past: Chosen) -> int:
        """Count the sessions of the history for which `lost` holds."""
        if not is_unrestricted(caller):
            return 0
        lost = past.also(_UNSEEN).also("status = ? AND archived = 0", Status.ERROR)
        return await self._store.history.count(lost.also(among("status_source"), texts(LOST_TOGETHER)))

    async def look(self, caller: Caller, sessions: Iterable[Session]) -> None:
        """Mark sessions as seen by an act that shows or changes them. Does nothing for other callers than the operator.

        A full disk must not prevent the act: the sessions then stay unseen.
        """
        if not is_unrestricted(caller):
            return
        try:
            await self._mark([s.id for s in sessions], caller, None)
        except StorageFull as error:
            log.warning("could not mark sessions as seen: %s", error.message)

    async def mark(
        self, caller: Caller, references: Sequence[str] | None, key: RequestKey | None
    ) -> list[Session]:
        """Mark the named sessions as seen, or all if None. Returns those that were not seen before."""
        if references is None:
            self._authorizer.require(caller, MARK_SEEN.audience)
            past = await self._store.history.ids(Chosen(_UNSEEN))
            old = [
                session
                for begin in range(0, len(past), _AT_ONCE)
                for session in await self._mark(past[begin : begin + _AT_ONCE], caller, None)
            ]
            return [*old, *await self._mark(list(self._store.sessions), caller, key)]
        else:
            wanted = [
                self._authorizer.find(caller, reference, MARK_SEEN.audience).id for reference in references
            ]
        return await self._mark(wanted, caller, key)

    async def _mark(
        self, session_ids: Sequence[str], caller: Caller, key: RequestKey | None
    ) -> list[Session]:
        known = self._store.sessions
        if key is None and not any(is_unseen(known[s]) for s in session_ids if s in known):
            return []
        async with self._store.transaction(caller, key) as tx:
            if tx.replayed is not None:
                found = (tx.find(session_id) for session_id in tx.replayed.split())
                return [session for session in found if session is not None]
            sessions = (tx.find(session_id) for session_id in session_ids)
            marked = [
                await tx.update(session, seen_at=tx.now)
                for session in sessions
                if session is not None and is_unseen(session)
            ]
            tx.remember(" ".join(session.id for session in marked))
        return marked
