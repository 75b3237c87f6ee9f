"""Usage by minute, hour and day."""

from collections.abc import Sequence

import pytest

from sm.core.usage import UNREAD, TokenCounts, Usage
from sm.core.usage_series import ModelUsage, UsageBucket, UsagePeriod, buckets


def price(usages: Sequence[Usage]) -> float | None:
    return (
        None
        if any(u.is_unread or u.model == "unknown" for u in usages)
        else float(sum(u.output for u in usages))
    )


def used(bucket: str, model: str, output: int) -> Usage:
    return Usage("", model, bucket, 1, output)


@pytest.mark.parametrize(
    ("period", "start"),
    [
        (UsagePeriod.MINUTE, "2026-11-22T10:17:00.000Z"),
        (UsagePeriod.HOUR, "2026-11-22T10:00:00.000Z"),
        (UsagePeriod.DAY, "2026-11-22T00:00:00.000Z"),
    ],
)
def test_bucket_starts_at_the_beginning_of_its_period(period: UsagePeriod, start: str) -> None:
    assert period.start("2026-11-22T10:17:59.999Z"[: period.digits]) == start


def test_buckets_add_the_same_model_of_several_providers() -> None:
    sums = [(used("2026-11-22", "opus", 1), price), (used("2026-11-21", "opus", 4), price)]
    sums += [(used("2026-11-22", "opus", 2), price), (used("2026-11-22", "haiku", 8), price)]
    first, second = buckets(sums, UsagePeriod.DAY)
    assert first == UsageBucket("2026-11-21T00:00:00.000Z", (ModelUsage("opus", TokenCounts(1, 4), 4.0),))
    assert second.models == (
        ModelUsage("haiku", TokenCounts(1, 8), 8.0),
        ModelUsage("opus", TokenCounts(2, 3), 3.0),
    )
    assert (second.tokens, second.cost_usd) == (TokenCounts(3, 11), 11.0)


def test_cost_of_a_bucket_is_unknown_when_one_price_is_unknown() -> None:
    (bucket,) = buckets(
        [(used("2026-11-22", "opus", 1), price), (used("2026-11-22", "unknown", 1), price)], UsagePeriod.DAY
    )
    assert bucket.cost_usd is None
    assert [m.cost_usd for m in bucket.models] == [1.0, None]


def test_cost_of_a_model_is_unknown_when_some_of_its_tokens_cannot_be_read() -> None:
    unread = Usage("", f"opus{UNREAD}", "2026-11-22")
    (bucket,) = buckets([(used("2026-11-22", "opus", 1), price), (unread, price)], UsagePeriod.DAY)
    assert bucket.models == (ModelUsage("opus", TokenCounts(1, 1), None),)
