"""Usage over time: tokens and cost of each minute, hour or day. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from sm.core.tree_totals import Price
from sm.core.usage import COST_DIGITS, UNREAD, TokenCounts, Usage


class UsagePeriod(StrEnum):
    """The length of a bucket, in UTC."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"

    @property
    def digits(self) -> int:
        """The number of characters of a time that name its bucket."""
        return {UsagePeriod.MINUTE: 16, UsagePeriod.HOUR: 13, UsagePeriod.DAY: 10}[self]

    def start(self, bucket: str) -> str:
        """The beginning of a bucket as a stored time."""
        return bucket + "0000-01-01T00:00:00.000Z"[self.digits :]


@dataclass(frozen=True, slots=True)
class ModelUsage:
    model: str
    tokens: TokenCounts
    cost_usd: float | None
    """None: the price is unknown, or some tokens, which `tokens` lacks."""


@dataclass(frozen=True, slots=True)
class UsageBucket:
    at: str
    """The beginning of the bucket."""
    models: tuple[ModelUsage, ...]

    @property
    def tokens(self) -> TokenCounts:
        return sum((used.tokens for used in self.models), TokenCounts())

    @property
    def cost_usd(self) -> float | None:
        """None when one price is unknown, because a partial sum would mislead."""
        costs = [used.cost_usd for used in self.models]
        known = [cost for cost in costs if cost is not None]
        return round(sum(known), COST_DIGITS) if len(known) == len(costs) else None


def buckets(sums: Iterable[tuple[Usage, Price]], period: UsagePeriod) -> list[UsageBucket]:
    """The buckets, oldest first. Each sum has the name of its bucket in `at`, and the price of its provider."""
    by_bucket: dict[str, dict[str, ModelUsage]] = {}
    for used, price in sums:
        models = by_bucket.setdefault(used.at, {})
        cost, model = price([used]), used.model.removesuffix(UNREAD) or "unknown"
        added = ModelUsage(model, TokenCounts.of([used]), None if cost is None else round(cost, COST_DIGITS))
        known = models.get(model)
        models[model] = added if known is None else _sum(known, added)
    return [
        UsageBucket(period.start(bucket), tuple(models[name] for name in sorted(models)))
        for bucket, models in sorted(by_bucket.items())
    ]


def _sum(one: ModelUsage, other: ModelUsage) -> ModelUsage:
    known = None if one.cost_usd is None or other.cost_usd is None else one.cost_usd + other.cost_usd
    cost_usd = None if known is None else round(known, COST_DIGITS)
    return ModelUsage(one.model, one.tokens + other.tokens, cost_usd)
