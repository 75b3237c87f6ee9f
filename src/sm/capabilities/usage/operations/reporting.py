"""Shows the usage of sessions, trees and agent types, and usage over time, within the permissions of the caller."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sm.capabilities.usage.model import UsageRecords, UsedSession, UsedTokens
from sm.capabilities.usage.operations import SeriesScope
from sm.capabilities.usage.rules import PERIOD_DIGITS, buckets, usage_groups
from sm.capabilities.usage.tables import PART
from sm.capabilities.usage.tree_sums import TreeSums
from sm.core.labels import label_of
from sm.core.lifecycle import is_live
from sm.core.models import Caller, Session
from sm.core.statuses import Status
from sm.core.time_slots import local_day, split
from sm.core.timestamps import epoch_s, later
from sm.core.tree_totals import Price
from sm.core.usage import TokenCounts, Usage
from sm.core.work_time import elapsed_s
from sm.kernel import OperationCall
from sm.policy.access import Action, Principal, may, relation
from sm.providers.base import Provider
from sm.providers.prices import price_of, prices_as_of
from sm.sessions.authorizer import Authorizer
from sm.sessions.workspaces import Workspaces
from sm.store import Store
from sm.store.sums import RemovedSums
from sm.wire_types.usage_answers import (
    Grouping,
    UsageBucketView,
    UsagePeriod,
    UsageReportView,
    UsageSeriesView,
)

_SINCE_EVER = ""
_EVER = "1970-01-01T00:00:00.000Z"
_NO_KEY = {Grouping.TREE: "removed", Grouping.ACCOUNT: "no account"}
_AHEAD_S = 60.0
"""Usage with a time further ahead than this is in no bucket."""


@dataclass(frozen=True, slots=True, eq=False)
class Reporting:
    """Use cases of usage."""

    _store: Store
    _authorizer: Authorizer
    _providers: Mapping[str, Provider]
    _workspaces: Workspaces
    _sums: TreeSums

    async def report(self, call: OperationCall) -> UsageReportView:
        """The usage of the sessions that the caller may read. Raises NotFound for an unknown workspace.

        With `since`, work and the usage of removed sessions count from quarters of an hour on: of the quarter in which
        `since` lies, work counts at most for the rest of the quarter, and removed sessions do not.
        """
        caller, asked = call.caller, call.arguments
        slug = None if asked.workspace is None else self._workspaces.slug(caller, asked.workspace)
        await self._sums.refresh_all()
        start = asked.since or _SINCE_EVER
        chosen = dict(self._scope(caller, slug, all_workspaces=asked.workspace is None))
        records = await self._records(chosen, asked.by, start)
        now, known = self._store.now(), self._store.sessions

        def label(key: str | None) -> str:
            if key is None:
                return _NO_KEY.get(asked.by, "unknown")
            return label_of(key, known.get(key)) if asked.by is Grouping.TREE else key

        used = [self._used(session, chosen) for session in chosen.values()]
        groups, total = usage_groups(asked.by, used, records, lambda at: self._day(at, now), start, label)
        return UsageReportView(asked.by, asked.since, now, prices_as_of(self._providers), groups, total)

    def _day(self, at: str, now: str) -> str | None:
        """The local day; None of a time in the future: an agent can write any time into its transcript."""
        return local_day(at, None) if at[:16] <= now[:16] else None

    async def series(self, call: OperationCall) -> UsageSeriesView:
        """The usage over time, by the times of messages. Raises NotFound for an unknown session or workspace."""
        asked: SeriesScope = call.arguments
        sessions = await self._authorizer.subtree(call.caller, asked.session, descendants=asked.tree)
        if asked.workspace is not None:
            slug = self._workspaces.slug(call.caller, asked.workspace)
            sessions = [s for s in sessions if s.workspace == slug]
        found = await self._buckets(sessions, asked.by, asked.since or _SINCE_EVER)
        shown = found[-asked.limit :] if asked.limit else []
        since = asked.since or _EVER
        if len(shown) < len(found):
            since = shown[0].at if shown else self._store.now()
        return UsageSeriesView(asked.by, since, self._sums.counts_tokens, shown)

    async def _buckets(
        self, sessions: Sequence[Session], period: UsagePeriod, since: str
    ) -> list[UsageBucketView]:
        if not self._sums.counts_tokens:
            return []
        by_provider: dict[str, list[Session]] = {}
        for session in sessions:
            by_provider.setdefault(session.provider, []).append(session)
        # An agent can write any time into its transcript.
        until, sums = later(self._store.now(), _AHEAD_S), list[tuple[Usage, Price]]()
        for members in by_provider.values():
            price, ids = price_of(self._providers, members[0].provider), [s.id for s in members]
            read = self._store.part(PART).by_time(ids, PERIOD_DIGITS[period], since, until)
            sums += [(used, price) for used in await read]
        return buckets(sums, period)

    # Scope

    def _scope(
        self, caller: Caller, slug: str | None, *, all_workspaces: bool
    ) -> Iterator[tuple[str, Session | RemovedSums]]:
        """The sessions that the caller may read, with the removed ones, by id."""
        principal = self._authorizer.principal(caller)
        below = self._below(principal)
        for session in self._sums.sessions():
            if not all_workspaces and session.workspace != slug:
                continue
            related = relation(principal, session, is_descendant=session.id in below)
            if related.is_self or may(related, Action.READ):
                yield session.id, session

    def _below(self, principal: Principal) -> set[str]:
        """The ids of the descendants of a calling session, with removed ones."""
        if not isinstance(principal, Session):
            return set()
        children: dict[str, list[str]] = {}
        for session in self._sums.sessions():
            parent = self._sums.parent(session.id)
            if parent is not None:
                children.setdefault(parent, []).append(session.id)
        found, pending = set[str](), [principal.id]
        while pending:
            for child in children.pop(pending.pop(), ()):
                found.add(child)
                pending.append(child)
        return found

    def _root(
        self, session: Session | RemovedSums, chosen: Mapping[str, Session | RemovedSums]
    ) -> str | None:
        """The topmost session above it among the chosen ones, or itself; None if all of them are removed."""
        root, seen = None, set[str]()
        at: str | None = session.id
        while at is not None and at in chosen and at not in seen:
            seen.add(at)
            if not _is_removed(chosen[at]):
                root = at
            at = self._sums.parent(at)
        return root

    def _used(
        self, session: Session | RemovedSums, chosen: Mapping[str, Session | RemovedSums]
    ) -> UsedSession:
        own, completed_at = self._sums.own(session.id), None
        if session.status is Status.COMPLETED:
            completed_at = session.completed_at
        return UsedSession(
            session.id,
            session.agent_type,
            self._sums.model(session.id),
            session.account,
            self._root(session, chosen),
            session.created_at,
            completed_at,
            0 if completed_at is None else elapsed_s(session, completed_at, session.worked_s),
            None if own.unpriced else own.known_cost_usd,
            live=isinstance(session, Session) and is_live(session.status),
            removed=_is_removed(session),
        )

    # Records

    async def _records(
        self, chosen: Mapping[str, Session | RemovedSums], by: Grouping, since: str
    ) -> UsageRecords:
        sums, slots = self._store.sums, by is Grouping.DAY
        usage, work, endings, follow_ups = await asyncio.gather(
            self._store.usage.since(since, slots=slots),
            sums.work_since(since, slots=slots),
            sums.endings_since(since),
            sums.follow_ups_since(since),
        )
        tokens = [
            UsedTokens(
                session_id,
                used.at,
                used.model,
                TokenCounts.of([used]),
                price_of(self._providers, session.provider)([used]),
                used.is_unread,
            )
            for session_id, used in (usage if self._sums.counts_tokens else ())
            if (session := chosen.get(session_id)) is not None
        ]
        return UsageRecords(tokens, [*work, *self._work_under_way(chosen, since)], endings, follow_ups)

    def _work_under_way(
        self, chosen: Mapping[str, Session | RemovedSums], since: str
    ) -> Iterator[tuple[str, str, float]]:
        now = self._store.now()
        for session in chosen.values():
            if isinstance(session, Session) and session.working_since is not None:
                elapsed_s = self._store.work.elapsed_s(session, now)
                begun = max(later(now, -elapsed_s), since)
                for slot, seconds in split(begun, epoch_s(now) - epoch_s(begun)):
                    yield session.id, slot, seconds


def _is_removed(session: Session | RemovedSums) -> bool:
    return isinstance(session, RemovedSums) and session.is_removed
