"""Shows the usage of sessions, trees and agent types, and usage over time, within the permissions of the caller."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial

from sm.capabilities.usage.chart_groups import ChartGroups, ChartTime
from sm.capabilities.usage.kept_parts import TreeSums
from sm.capabilities.usage.operations import SeriesScope
from sm.capabilities.usage.past_usage import PastUsage, ReportedSessions
from sm.capabilities.usage.report_records import RecordReader, used_session
from sm.capabilities.usage.tables import PART
from sm.capabilities.usage.usage_groups import PERIOD_DIGITS, buckets, group_key, root_of
from sm.core.dataclass import dataclass
from sm.core.labels import label_of
from sm.core.models import Session
from sm.core.time_slots import local_day
from sm.core.timestamps import epoch_s, iso, later
from sm.core.tree_totals import Price
from sm.core.usage import TokenCounts, Usage
from sm.kernel import OperationCall
from sm.operations.access_rules import READ_ALSO_ITSELF
from sm.policy.relations import Principal, may, relation
from sm.providers.base import Provider
from sm.providers.prices import price_of, prices_as_of
from sm.sessions.authorizer import Authorizer
from sm.sessions.workspaces import Workspaces
from sm.store import Store
from sm.store.sums import RemovedSums
from sm.wire_types.usage_answers import (
    ChartGrouping,
    Grouping,
    UsageBucketView,
    UsageChartView,
    UsagePeriod,
    UsageReportView,
    UsageSeriesView,
)

_SINCE_EVER = ""
_EVER = "1970-01-01T00:00:00.000Z"
_NO_KEY = {Grouping.TREE: "removed", Grouping.ACCOUNT: "no account"}
_CHART_S = 86_400.0
_AHEAD_S = 60.0
"""Usage with a time further ahead than this is in no bucket."""


@dataclass(frozen=True, slots=True)
class _Roots:
    """The roots of trees in a report by tree; of other reports no session has one."""

    above: Mapping[str, str | None] = field(default_factory=dict)
    """The parents of the sessions of the report."""
    removed: Collection[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of the sessions that are not in memory."""

    def of(self, session_id: str) -> str | None:
        return root_of(session_id, self.above, self.removed)

    def label(self, by: Grouping, key: str | None, known: Mapping[str, Session]) -> str:
        """The label of a group. `known`: the sessions in memory."""
        if key is None:
            return _NO_KEY.get(by, "unknown")
        if by is not Grouping.TREE:
            return key
        return self.labels.get(key) or label_of(key, known.get(key))


class Reporting:
    """Use cases of usage."""

    def __init__(
        self,
        store: Store,
        authorizer: Authorizer,
        providers: Mapping[str, Provider],
        workspaces: Workspaces,
        sums: TreeSums,
    ) -> None:
        self._store = store
        self._authorizer = authorizer
        self._providers = providers
        self._workspaces = workspaces
        self._sums = sums
        self._records = RecordReader(store, providers)
        self._past = PastUsage(store, providers, self._records)

    async def report(self, call: OperationCall) -> UsageReportView:
        """The usage of the sessions that the caller may read. Raises NotFound for an unknown workspace.

        With `since`, work and the usage of removed sessions count from quarters of an hour on: of the quarter in which
        `since` lies, work counts at most for the rest of the quarter, and removed sessions do not.
        """
        caller, scope, now = call.caller, call.arguments, self._store.now()
        asked = ReportedSessions(
            self._authorizer.principal(caller),
            scope.by,
            scope.since or _SINCE_EVER,
            None if scope.workspace is None else self._workspaces.slug(caller, scope.workspace),
            scope.workspace is None,
            self._sums.counts_tokens,
            now,
        )
        roots = await self._roots(asked)

        def day_of(at: str) -> str | None:
            """None of a time in the future: an agent can write any time into its transcript."""
            return local_day(at, None) if at[:16] <= now[:16] else None

        groups, kept = await self._past.groups(asked, day_of, roots.of)
        await self._sums.refresh()
        chosen = dict(self._scope(asked, [*kept.values(), *self._sums.removed()]))
        records = await self._records.read(chosen, asked.by, asked.since, tokens=asked.tokens)
        own, model = self._sums.own, self._sums.model
        groups.add(
            [used_session(s, own(s.id), model(s.id), roots.of(s.id)) for s in chosen.values()], records
        )
        label = partial(roots.label, asked.by, known=self._store.sessions)
        return UsageReportView(
            asked.by, scope.since, now, prices_as_of(self._providers), *groups.views(label)
        )

    async def chart(self, call: OperationCall) -> UsageChartView:
        """The usage of the sessions that the caller may read in parts of a time. Raises NotFound as `report` does."""
        caller, scope, now = call.caller, call.arguments, self._store.now()
        until = min(scope.until or now, now)
        since_s = epoch_s(scope.since or later(until, -_CHART_S))
        time = ChartTime.of(since_s, epoch_s(until), scope.parts)
        asked = ReportedSessions(
            self._authorizer.principal(caller),
            # The sessions have the labels of trees.
            Grouping.TREE if scope.by is ChartGrouping.SESSION else Grouping(scope.by),
            iso(time.since_s),
            None if scope.workspace is None else self._workspaces.slug(caller, scope.workspace),
            scope.workspace is None,
            self._sums.counts_tokens,
            now,
        )
        roots = await self._roots(asked)
        groups = ChartGroups(time.parts)
        if asked.tokens:
            await self._add_usage(groups, asked, time, roots, scope.by)
        label = partial(roots.label, asked.by, known=self._store.sessions)
        return UsageChartView(
            scope.by,
            asked.since,
            until,
            time.step_s,
            asked.tokens,
            prices_as_of(self._providers),
            *groups.views(scope.groups, label),
        )

    async def _add_usage(
        self, groups: ChartGroups, asked: ReportedSessions, time: ChartTime, roots: _Roots, by: ChartGrouping
    ) -> None:
        kept = dict(self._store.sessions.items())
        past = await self._past.sessions(asked, kept)
        await self._sums.refresh()
        members = {**past, **dict(self._scope(asked, [*kept.values(), *self._sums.removed()]))}
        reads = self._store.part(PART)
        for session_id, part, used in await reads.by_step(members, time.since_s, time.until_s, time.step_s):
            session = members[session_id]
            if by is ChartGrouping.SESSION:
                key = None if session_id in roots.removed else session_id
            else:
                root = partial(roots.of, session_id)
                key = group_key(asked.by, session.agent_type, used.model, session.account, root)
            cost = price_of(self._providers, session.provider)([used])
            groups.add(key, part, TokenCounts.of([used]), cost, is_unread=used.is_unread)

    async def reconfigure(self) -> None:
        """Follow a change of the configuration, which may have other prices."""
        self._past.forget()

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
        self, asked: ReportedSessions, sessions: Iterable[Session | RemovedSums]
    ) -> Iterator[tuple[str, Session | RemovedSums]]:
        """Yield the sessions, in memory and removed ones, that the caller may read, by id."""
        below = self._below(asked.principal)
        for session in sessions:
            if not asked.everywhere and session.workspace != asked.workspace:
                continue
            related = relation(asked.principal, session, is_descendant=session.id in below)
            if may(related, READ_ALSO_ITSELF):
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

    async def _roots(self, asked: ReportedSessions) -> _Roots:
        if asked.by is not Grouping.TREE:
            return _Roots()
        past = await self._past.tree(asked)
        await self._sums.refresh()
        above = {session_id: parent for session_id, (parent, _) in past.items()}
        removed = set[str]()
        for session_id, session in self._scope(
            asked, [*self._store.sessions.values(), *self._sums.removed()]
        ):
            above[session_id] = self._sums.parent(session_id)
            if isinstance(session, RemovedSums):
                removed.add(session_id)
        return _Roots(above, removed, {session_id: text for session_id, (_, text) in past.items()})
