"""The JSON objects of sums, estimates and reports of usage.

The sums stand in each row of lists. They have no slots, because orjson writes them in a third of the time then.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Self

from sm.core.dataclass import dataclass
from sm.core.estimates import Spread
from sm.core.usage import TokenCounts
from sm.wire_types.fields import Time


class Grouping(StrEnum):
    TYPE = "type"
    MODEL = "model"
    DAY = "day"
    """Local days."""
    ACCOUNT = "account"
    TREE = "tree"
    """The sessions without a parent, each with all that is below it."""


class ChartGrouping(StrEnum):
    """The groups of a chart. All but `session` are a `Grouping` too."""

    TYPE = "type"
    MODEL = "model"
    ACCOUNT = "account"
    TREE = "tree"
    """The sessions without a parent, each with all that is below it."""
    SESSION = "session"
    """Each session without those below it."""


class UsagePeriod(StrEnum):
    """The length of a bucket, in UTC."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"


@dataclass(frozen=True)
class TokensView:
    """Tokens by kind. Each token counts in exactly one field."""

    input: int
    output: int
    cache_read: int
    cache_write: int

    @classmethod
    def of(cls, counts: TokenCounts) -> Self:
        return cls(counts.input, counts.output, counts.cache_read, counts.cache_write)


@dataclass(frozen=True)
class SumsView:
    """The usage of a session itself."""

    tokens: TokensView | None
    """Includes the tokens of sub-agents. Null if nothing is known."""
    tokens_partial: bool
    """True if some tokens cannot be read, so that there are more."""
    cost_usd: float | None
    """The known part of the cost, or null if there is none."""
    cost_partial: bool
    """True if the price of a model, or some tokens, are unknown, so that the cost is higher."""
    minutes: float
    """Minutes of work: running and not paused."""


@dataclass(frozen=True)
class TreeSumsView(SumsView):
    """The usage of a session and all its descendants, as far as the caller sees them."""

    sessions: int
    """At least 1, for the session itself. Archived ones included."""
    live: int
    removed: int
    """Removed descendants, whose usage is included; not in `sessions`."""


@dataclass(frozen=True)
class SessionSumsView:
    own: SumsView
    tree: TreeSumsView


@dataclass(frozen=True, slots=True)
class EndingsView:
    """How often sessions ended. A restored session may end again."""

    completed: int
    error: int
    abandoned: int
    killed: int


@dataclass(frozen=True, slots=True)
class UsageGroupView:
    """The usage of the sessions of a group. A session may be in several groups by day or model."""

    key: str | None
    """An agent type, model, date, account or the id of a root session, or null if unknown or none."""
    label: str
    """The key for people."""
    sessions: int
    """The sessions with a record in the group, removed ones included."""
    live: int
    removed: int
    endings: EndingsView
    tokens: TokensView | None
    tokens_partial: bool
    """True if some tokens cannot be read, so that there are more."""
    cost_usd: float | None
    """The known part of the cost, or null if there is none."""
    cost_partial: bool
    """True if the price of a model, or some tokens, are unknown, so that the cost is higher."""
    minutes: float
    """Minutes of work: running and not paused."""
    reminders: int
    retries: int
    """Retries after faults of the service."""
    cost_usd_each: Spread | None
    """Of the completed sessions whose cost is known."""
    seconds_each: Spread | None
    """Of the completed sessions, from start to completion."""


@dataclass(frozen=True, slots=True)
class UsageReportView:
    by: Grouping
    since: Time | None
    """As asked, or null for all that is known."""
    until: Time
    """The daemon's time."""
    prices_as_of: str | None
    """The date of the list prices."""
    groups: list[UsageGroupView]
    """Days in order; others by their cost, the largest first."""
    total: UsageGroupView


@dataclass(frozen=True, slots=True)
class ModelUsageView:
    model: str
    tokens: TokensView
    cost_usd: float | None
    """Null if the price of the model, or some of its tokens, are unknown."""


@dataclass(frozen=True, slots=True)
class UsageBucketView:
    """The usage of a minute, an hour or a day (UTC)."""

    at: Time
    """Its beginning."""
    tokens: TokensView
    cost_usd: float | None
    """Null when the price of a model is unknown."""
    models: Sequence[ModelUsageView]


@dataclass(frozen=True, slots=True)
class UsageSeriesView:
    """The usage of sessions over time."""

    by: UsagePeriod
    since: Time
    """As asked, or later if there were more buckets than `limit`."""
    counted: bool
    """False if the configuration switches the counting off."""
    buckets: Sequence[UsageBucketView]
    """Oldest first; without those that have no usage."""


@dataclass(frozen=True, slots=True)
class ChartGroupView:
    """The usage of a group in each part of the time of a chart."""

    key: str | None
    """An agent type, model, account or the id of a session, or null if unknown, none or several."""
    label: str
    """The key for people."""
    merged: int
    """The number of groups in it: more than 1 for the rest, which has no place of its own in the chart."""
    tokens: TokensView
    tokens_partial: bool
    """True if some tokens cannot be read, so that there are more."""
    cost_usd: float | None
    """The sum of `costs_usd`, or null if no price is known."""
    cost_partial: bool
    """True if the price of a model, or some tokens, are unknown, so that the cost is higher."""
    tokens_used: Sequence[int]
    """Input and output of each part of the time. Their sum is that of `tokens`."""
    costs_usd: Sequence[float]
    """The known cost of each part of the time."""


@dataclass(frozen=True, slots=True)
class UsageChartView:
    """The usage of sessions in parts of equal length of a time."""

    by: ChartGrouping
    since: Time
    """The beginning of the first part: as asked, or up to a quarter of an hour before."""
    until: Time
    """As asked, or the daemon's time if that is earlier. The last part ends there or later."""
    step_s: int
    """The length of a part. A part of less than a quarter of an hour has the usage by minutes."""
    counted: bool
    """False if the configuration switches the counting off."""
    prices_as_of: str | None
    """The date of the list prices."""
    groups: list[ChartGroupView]
    """By their cost and tokens, the largest first, and then the rest."""
    total: ChartGroupView
