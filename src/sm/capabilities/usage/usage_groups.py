"""Groups of a report of usage, by type, model, day, account or tree, and usage over time. Pure."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field, replace
from typing import TypeAlias

from sm.capabilities.usage.model import UsageRecords, UsedSession, UsedTokens
from sm.core.dataclass import dataclass
from sm.core.estimates import spread
from sm.core.statuses import Status
from sm.core.tree_totals import Price
from sm.core.usage import COST_DIGITS, UNREAD, FollowUpKind, TokenCounts, Usage, base_model
from sm.wire_types.usage_answers import (
    EndingsView,
    Grouping,
    ModelUsageView,
    TokensView,
    UsageBucketView,
    UsageGroupView,
    UsagePeriod,
)

DayOf: TypeAlias = Callable[[str], str | None]
"""The local day of a time, or None without a time."""
PERIOD_DIGITS = {UsagePeriod.MINUTE: 16, UsagePeriod.HOUR: 13, UsagePeriod.DAY: 10}
"""The number of characters of a time that name its bucket."""


@dataclass
class _Sums:
    sessions: int = 0
    live: int = 0
    removed: int = 0
    endings: Counter[Status] = field(default_factory=Counter)
    tokens: TokenCounts | None = None
    unread: bool = False
    cost: float | None = None
    partial: bool = False
    seconds: float = 0.0
    follow_ups: Counter[FollowUpKind] = field(default_factory=Counter)
    costs_each: list[float] = field(default_factory=list)
    """In order, as `seconds_each`."""
    seconds_each: list[float] = field(default_factory=list)
    oldest_at: str = "~"
    """When the oldest session was created. `~` is above every time."""

    def add_tokens(self, used: UsedTokens) -> None:
        if used.is_unread:
            self.unread = self.partial = True
            return
        self.tokens = (self.tokens or TokenCounts()) + used.tokens
        if used.cost_usd is not None:
            self.cost = (self.cost or 0.0) + used.cost_usd
        elif used.tokens != TokenCounts():
            self.partial = True

    def add_completed(self, session: UsedSession) -> None:
        self.seconds_each.append(session.seconds)
        if session.cost_usd is not None:
            self.costs_each.append(session.cost_usd)

    def add_sessions(self, sessions: Iterable[UsedSession]) -> None:
        for session in sessions:
            self.sessions += 1
            self.live += session.live
            self.removed += session.removed
            self.oldest_at = min(self.oldest_at, session.created_at)
        self.costs_each.sort()
        self.seconds_each.sort()

    def copy(self) -> "_Sums":
        return replace(
            self,
            endings=self.endings.copy(),
            follow_ups=self.follow_ups.copy(),
            costs_each=[*self.costs_each],
            seconds_each=[*self.seconds_each],
        )


class UsageGroups:
    """The groups of a report and their sum, to which sessions are added in parts.

    A session belongs to each group for which something of it is recorded, and to that of its creation. `since`: only
    what came later.
    """

    def __init__(self, by: Grouping, day_of: DayOf, since: str = "") -> None:
        self._by = by
        self._day_of = day_of
        self._since = since
        self._total = _Sums()
        self._groups: dict[str | None, _Sums] = {}

    def copy(self, day_of: DayOf) -> "UsageGroups":
        copied = UsageGroups(self._by, day_of, self._since)
        copied._total = self._total.copy()
        copied._groups = {key: sums.copy() for key, sums in self._groups.items()}
        return copied

    def add(self, sessions: Iterable[UsedSession], records: UsageRecords) -> None:
        """Add sessions with all their records. Ignores records of other sessions."""
        known = {session.id: session for session in sessions}
        members: dict[str | None, dict[str, UsedSession]] = {}

        def of(session_id: str, at: str, model: str | None = None) -> tuple[_Sums, _Sums]:
            """The group of a record, and the total."""
            session = known[session_id]
            key = self._key(session, at, model or session.model)
            members.setdefault(key, {})[session_id] = session
            return self._groups.setdefault(key, _Sums()), self._total

        for session in known.values():
            if session.created_at >= self._since:
                of(session.id, session.created_at)
            if session.completed_at is not None and session.completed_at >= self._since:
                for sums in of(session.id, session.completed_at):
                    sums.add_completed(session)
        for used in records.tokens:
            if used.session_id in known:
                for sums in of(used.session_id, used.at, used.model):
                    sums.add_tokens(used)
        for session_id, at, seconds in records.work:
            if session_id in known:
                for sums in of(session_id, at):
                    sums.seconds += seconds
        for session_id, at, status in records.endings:
            if session_id in known:
                for sums in of(session_id, at):
                    sums.endings[status] += 1
        for session_id, at, kind in records.follow_ups:
            if session_id in known:
                for sums in of(session_id, at):
                    sums.follow_ups[kind] += 1
        for key, added in members.items():
            self._groups[key].add_sessions(added.values())
        self._total.add_sessions({id: s for added in members.values() for id, s in added.items()}.values())

    def _key(self, session: UsedSession, at: str, model: str | None) -> str | None:
        if self._by is Grouping.DAY:
            return self._day_of(at)
        return group_key(self._by, session.agent_type, model, session.account, lambda: session.root)

    def views(self, label: Callable[[str | None], str] = str) -> tuple[list[UsageGroupView], UsageGroupView]:
        """The groups and their sum. Days come in order, other groups by their cost and tokens, the largest first.

        Groups of the same size are in the order of their oldest sessions. `label`: of the key of a group.
        """
        ordered = sorted(self._groups.items(), key=lambda group: group[1].oldest_at)
        found = [_group(key, label(key), sums) for key, sums in ordered]
        if self._by is Grouping.DAY:
            found.sort(key=lambda group: group.key or "")
        else:
            found.sort(key=_size, reverse=True)
        return found, _group(None, "total", self._total)


def group_key(
    by: Grouping, agent_type: str, model: str | None, account: str | None, root: Callable[[], str | None]
) -> str | None:
    """The key of the group of a record, which does not depend on its time. Without one: None."""
    match by:
        case Grouping.TYPE:
            return agent_type
        case Grouping.MODEL:
            return None if model is None else base_model(model) or None
        case Grouping.ACCOUNT:
            return account
        case Grouping.TREE:
            return root()
        case Grouping.DAY:
            return None


def root_of(session_id: str, above: Mapping[str, str | None], removed: Collection[str]) -> str | None:
    """The topmost session above it that is in `above`, or itself; None if all of them are removed.

    `above`: the parents of the sessions of the report.
    """
    root, seen = None, set[str]()
    at: str | None = session_id
    while at is not None and at in above and at not in seen:
        seen.add(at)
        if at not in removed:
            root = at
        at = above[at]
    return root


def _size(group: UsageGroupView) -> tuple[float, int, float, int]:
    used = 0 if group.tokens is None else group.tokens.input + group.tokens.output
    return group.cost_usd or 0.0, used, group.minutes, group.sessions


def _group(key: str | None, label: str, sums: _Sums) -> UsageGroupView:
    ended, followed = sums.endings, sums.follow_ups
    return UsageGroupView(
        key=key,
        label=label,
        sessions=sums.sessions,
        live=sums.live,
        removed=sums.removed,
        endings=EndingsView(
            ended[Status.COMPLETED], ended[Status.ERROR], ended[Status.ABANDONED], ended[Status.KILLED]
        ),
        tokens=None if sums.tokens is None else TokensView.of(sums.tokens),
        tokens_partial=sums.unread,
        cost_usd=None if sums.cost is None else round(sums.cost, COST_DIGITS),
        cost_partial=sums.partial,
        minutes=round(sums.seconds / 60, 1),
        reminders=followed[FollowUpKind.REMINDER],
        retries=followed[FollowUpKind.RETRY],
        cost_usd_each=spread(sums.costs_each),
        seconds_each=spread(sums.seconds_each),
    )


def buckets(sums: Iterable[tuple[Usage, Price]], period: UsagePeriod) -> list[UsageBucketView]:
    """The buckets, oldest first. Each sum has the name of its bucket in `at`, and the price of its provider."""
    by_bucket: dict[str, dict[str, list[tuple[TokenCounts, float | None]]]] = {}
    for used, price in sums:
        model = used.model.removesuffix(UNREAD) or "unknown"
        cost = price([used])
        added = TokenCounts.of([used]), None if cost is None else round(cost, COST_DIGITS)
        by_bucket.setdefault(used.at, {}).setdefault(model, []).append(added)
    return [_bucket(bucket, models, period) for bucket, models in sorted(by_bucket.items())]


def _bucket(
    name: str, models: Mapping[str, list[tuple[TokenCounts, float | None]]], period: UsagePeriod
) -> UsageBucketView:
    start = name + "0000-01-01T00:00:00.000Z"[PERIOD_DIGITS[period] :]
    tokens = {model: sum((one for one, _ in parts), TokenCounts()) for model, parts in models.items()}
    costs = {model: _known_sum(cost for _, cost in parts) for model, parts in models.items()}
    return UsageBucketView(
        at=start,
        tokens=TokensView.of(sum(tokens.values(), TokenCounts())),
        cost_usd=_known_sum(costs.values()),
        models=[
            ModelUsageView(model, TokensView.of(tokens[model]), costs[model]) for model in sorted(models)
        ],
    )


def _known_sum(costs: Iterable[float | None]) -> float | None:
    """None when one price is unknown, because a partial sum would mislead."""
    total = 0.0
    for cost in costs:
        if cost is None:
            return None
        total += cost
    return round(total, COST_DIGITS)
