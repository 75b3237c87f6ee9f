"""Groups of a report of usage, by type, model, day, account or tree, and usage over time. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from sm.capabilities.usage.model import UsageRecords, UsedSession, UsedTokens
from sm.core.percentiles import spread
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

PERIOD_DIGITS = {UsagePeriod.MINUTE: 16, UsagePeriod.HOUR: 13, UsagePeriod.DAY: 10}
"""The number of characters of a time that name its bucket."""


@dataclass
class _Sums:
    sessions: set[str] = field(default_factory=set)
    endings: Counter[Status] = field(default_factory=Counter)
    tokens: TokenCounts | None = None
    unread: bool = False
    cost: float | None = None
    partial: bool = False
    seconds: float = 0.0
    follow_ups: Counter[FollowUpKind] = field(default_factory=Counter)
    completed: list[UsedSession] = field(default_factory=list)

    def add_tokens(self, used: UsedTokens) -> None:
        if used.is_unread:
            self.unread = self.partial = True
            return
        self.tokens = (self.tokens or TokenCounts()) + used.tokens
        if used.cost_usd is not None:
            self.cost = (self.cost or 0.0) + used.cost_usd
        elif used.tokens != TokenCounts():
            self.partial = True


class _Groups:
    def __init__(
        self, by: Grouping, sessions: Mapping[str, UsedSession], day_of: Callable[[str], str | None]
    ) -> None:
        self._by = by
        self._known = sessions
        self._day_of = day_of
        self.total = _Sums()
        self.groups: dict[str | None, _Sums] = {}

    def of(self, session_id: str, at: str, model: str | None = None) -> tuple[_Sums, _Sums]:
        """The group of a record, and the total, both with its session."""
        session = self._known[session_id]
        found = self.groups.setdefault(self._key(session, at, model or session.model), _Sums())
        for sums in (found, self.total):
            sums.sessions.add(session_id)
        return found, self.total

    def _key(self, session: UsedSession, at: str, model: str | None) -> str | None:
        match self._by:
            case Grouping.TYPE:
                return session.agent_type
            case Grouping.MODEL:
                return None if model is None else base_model(model) or None
            case Grouping.DAY:
                return self._day_of(at)
            case Grouping.ACCOUNT:
                return session.account
            case Grouping.TREE:
                return session.root


def usage_groups(
    by: Grouping,
    sessions: Iterable[UsedSession],
    records: UsageRecords,
    day_of: Callable[[str], str | None],
    since: str = "",
    label: Callable[[str | None], str] = str,
) -> tuple[list[UsageGroupView], UsageGroupView]:
    """The groups and their sum. Days come in order, other groups by their cost and tokens, the largest first.

    A session belongs to each group for which something of it is recorded, and to that of its creation. Records of
    other sessions are ignored. `day_of`: the local day of a time; None: none. `label`: of the key of a group.
    """
    known = {session.id: session for session in sessions}
    groups = _Groups(by, known, day_of)
    for session in known.values():
        if session.created_at >= since:
            groups.of(session.id, session.created_at)
        if session.completed_at is not None and session.completed_at >= since:
            for sums in groups.of(session.id, session.completed_at):
                sums.completed.append(session)
    for used in records.tokens:
        if used.session_id in known:
            for sums in groups.of(used.session_id, used.at, used.model):
                sums.add_tokens(used)
    for session_id, at, seconds in records.work:
        if session_id in known:
            for sums in groups.of(session_id, at):
                sums.seconds += seconds
    for session_id, at, status in records.endings:
        if session_id in known:
            for sums in groups.of(session_id, at):
                sums.endings[status] += 1
    for session_id, at, kind in records.follow_ups:
        if session_id in known:
            for sums in groups.of(session_id, at):
                sums.follow_ups[kind] += 1
    found = [_group(key, label(key), sums, known) for key, sums in groups.groups.items()]
    if by is Grouping.DAY:
        found.sort(key=lambda group: group.key or "")
    else:
        found.sort(key=_size, reverse=True)
    return found, _group(None, "total", groups.total, known)


def _size(group: UsageGroupView) -> tuple[float, int, float, int]:
    used = 0 if group.tokens is None else group.tokens.input + group.tokens.output
    return group.cost_usd or 0.0, used, group.minutes, group.sessions


def _group(key: str | None, label: str, sums: _Sums, known: Mapping[str, UsedSession]) -> UsageGroupView:
    sessions = [known[session_id] for session_id in sums.sessions]
    ended, followed = sums.endings, sums.follow_ups
    return UsageGroupView(
        key=key,
        label=label,
        sessions=len(sessions),
        live=sum(session.live for session in sessions),
        removed=sum(session.removed for session in sessions),
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
        cost_usd_each=spread([s.cost_usd for s in sums.completed if s.cost_usd is not None]),
        seconds_each=spread([s.seconds for s in sums.completed]),
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
