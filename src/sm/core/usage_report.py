"""The report of `sm usage`: usage of sessions by type, model, day, account or tree. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from sm.core.percentiles import Spread, spread
from sm.core.statuses import Status
from sm.core.usage import COST_DIGITS, FollowUpKind, TokenCounts, base_model


class Grouping(StrEnum):
    TYPE = "type"
    MODEL = "model"
    DAY = "day"
    """Local days."""
    ACCOUNT = "account"
    TREE = "tree"
    """The sessions without a parent, each with all that is below it."""


ENDINGS = (Status.COMPLETED, Status.ERROR, Status.ABANDONED, Status.KILLED)


@dataclass(frozen=True, slots=True)
class UsedSession:
    """A session of the report, which may be removed."""

    id: str
    agent_type: str
    model: str | None
    """The model that it used most; None: unknown."""
    account: str | None
    root: str | None
    """The topmost session of its tree that the caller sees; None: removed with all its ancestors."""
    created_at: str
    completed_at: str | None
    """The time of its completion; None: it has ended in another way, or not at all."""
    seconds: float = 0
    """From its start to its completion."""
    cost_usd: float | None = None
    """None: unknown."""
    live: bool = False
    removed: bool = False


@dataclass(frozen=True, slots=True)
class UsedTokens:
    """The usage of a session with one model."""

    session_id: str
    at: str
    """The slot, or any time in it; empty: unknown."""
    model: str
    tokens: TokenCounts
    cost_usd: float | None
    """None: the price is unknown."""
    is_unread: bool = False
    """The tokens cannot be read."""


@dataclass(frozen=True, slots=True)
class UsageRecords:
    """All that was recorded since the beginning of the report. The times are ISO 8601 in UTC, or slots."""

    tokens: Sequence[UsedTokens] = ()
    work: Sequence[tuple[str, str, float]] = ()
    """(session, slot, seconds)"""
    endings: Sequence[tuple[str, str, Status]] = ()
    """(session, time, kind)"""
    follow_ups: Sequence[tuple[str, str, FollowUpKind]] = ()
    """(session, time, kind)"""


@dataclass(frozen=True, slots=True)
class UsageGroup:
    key: str | None
    """None: the sessions to which none applies, and the key of the sum of all groups."""
    sessions: int
    live: int
    removed: int
    endings: Mapping[Status, int]
    tokens: TokenCounts | None
    """The known part, or None if there is none."""
    tokens_partial: bool
    """Some tokens cannot be read."""
    cost_usd: float | None
    """The known part, or None if there is none."""
    cost_partial: bool
    """The price of a model, or some tokens, are unknown."""
    minutes: float
    reminders: int
    retries: int
    cost_spread: Spread | None
    """Of the completed sessions whose cost is known."""
    seconds_spread: Spread | None
    """Of the completed sessions, from start to completion."""


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
) -> tuple[list[UsageGroup], UsageGroup]:
    """The groups and their sum. Days come in order, other groups by their cost and tokens, the largest first.

    A session belongs to each group for which something of it is recorded, and to that of its creation. Records of
    other sessions are ignored. `day_of`: the local day of a time; None: none.
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
    found = [_group(key, sums, known) for key, sums in groups.groups.items()]
    if by is Grouping.DAY:
        found.sort(key=lambda group: group.key or "")
    else:
        found.sort(key=_size, reverse=True)
    return found, _group(None, groups.total, known)


def _size(group: UsageGroup) -> tuple[float, int, float, int]:
    used = 0 if group.tokens is None else group.tokens.used
    return group.cost_usd or 0.0, used, group.minutes, group.sessions


def _group(key: str | None, sums: _Sums, known: Mapping[str, UsedSession]) -> UsageGroup:
    sessions = [known[session_id] for session_id in sums.sessions]
    costs = [s.cost_usd for s in sums.completed if s.cost_usd is not None]
    return UsageGroup(
        key,
        len(sessions),
        sum(session.live for session in sessions),
        sum(session.removed for session in sessions),
        {status: sums.endings[status] for status in ENDINGS},
        sums.tokens,
        sums.unread,
        None if sums.cost is None else round(sums.cost, COST_DIGITS),
        sums.partial,
        round(sums.seconds / 60, 1),
        sums.follow_ups[FollowUpKind.REMINDER],
        sums.follow_ups[FollowUpKind.RETRY],
        spread(costs),
        spread([s.seconds for s in sums.completed]),
    )
