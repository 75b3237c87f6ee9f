"""Reads the records of some sessions for a report of usage."""

import asyncio
from collections.abc import Iterator, Mapping

from sm.capabilities.usage.model import UsageRecords, UsedSession, UsedTokens
from sm.core.lifecycle import is_live
from sm.core.models import Session
from sm.core.statuses import Status
from sm.core.time_slots import split
from sm.core.timestamps import epoch_s, later
from sm.core.tree_totals import Totals
from sm.core.usage import TokenCounts
from sm.core.work_time import elapsed_s
from sm.providers.base import Provider
from sm.providers.prices import price_of
from sm.store import Store
from sm.store.sums import RemovedSums
from sm.wire_types.usage_answers import Grouping


class RecordReader:
    def __init__(self, store: Store, providers: Mapping[str, Provider]) -> None:
        self._store = store
        self._providers = providers

    async def read(
        self, sessions: Mapping[str, Session | RemovedSums], by: Grouping, since: str, *, tokens: bool
    ) -> UsageRecords:
        """All that was recorded of these sessions, by id. `tokens`: with tokens."""
        sums, slots, ids = self._store.sums, by is Grouping.DAY, list(sessions)
        usage, work, endings, follow_ups = await asyncio.gather(
            self._store.usage.since(since, slots=slots, sessions=ids if tokens else ()),
            sums.work_since(since, slots=slots, sessions=ids),
            sums.endings_since(since, ids),
            sums.follow_ups_since(since, ids),
        )
        used = [
            UsedTokens(
                session_id,
                used.at,
                used.model,
                TokenCounts.of([used]),
                price_of(self._providers, sessions[session_id].provider)([used]),
                used.is_unread,
            )
            for session_id, used in usage
        ]
        return UsageRecords(used, [*work, *self._work_under_way(sessions, since)], endings, follow_ups)

    def _work_under_way(
        self, sessions: Mapping[str, Session | RemovedSums], since: str
    ) -> Iterator[tuple[str, str, float]]:
        now = self._store.now()
        for session in sessions.values():
            if isinstance(session, Session) and session.working_since is not None:
                elapsed_s = self._store.work.elapsed_s(session, now)
                begun = max(later(now, -elapsed_s), since)
                for slot, seconds in split(begun, epoch_s(now) - epoch_s(begun)):
                    yield session.id, slot, seconds


def used_session(
    session: Session | RemovedSums, own: Totals, model: str | None, root: str | None
) -> UsedSession:
    """The session in a report. `model`: the one that it used most; `root`: of its tree."""
    completed_at = session.completed_at if session.status is Status.COMPLETED else None
    return UsedSession(
        session.id,
        session.agent_type,
        model,
        session.account,
        root,
        session.created_at,
        completed_at,
        0 if completed_at is None else elapsed_s(session, completed_at, session.worked_s),
        None if own.unpriced else own.known_cost_usd,
        live=isinstance(session, Session) and is_live(session.status),
        removed=is_removed(session),
    )


def is_removed(session: Session | RemovedSums) -> bool:
    return isinstance(session, RemovedSums) and session.is_removed
