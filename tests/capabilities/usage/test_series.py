"""Usage by minute, hour and day."""

from collections.abc import Sequence

import pytest

from sm.capabilities.usage.usage_groups import PERIOD_DIGITS, buckets
from sm.core.usage import UNREAD, Usage
from sm.wire_types.usage_answers import ModelUsageView, TokensView, UsageBucketView, UsagePeriod


def price(usages: Sequence[Usage]) -> float | None:
    return (
        None
        if any(u.is_unread or u.model == "unknown" for u in usages)
        else float(sum(u.output for u in usages))
    )


def used(bucket: str, model: str, output: int) -> Usage:
    return Usage("", model, bucket, 1, output)


def tokens(input: int, output: int) -> TokensView:
    return TokensView(input, output, 0, 0)


@pytest.mark.parametrize(
    ("period", "start"),
    [
        (UsagePeriod.MINUTE, "2026-11-22T10:17:00.000Z"),
        (UsagePeriod.HOUR, "2026-11-22T10:00:00.000Z"),
        (UsagePeriod.DAY, "2026-11-22T00:00:00.000Z"),
    ],
)
def test_bucket_starts_at_the_beginning_of_its_period(period: UsagePeriod, start: str) -> None:
    (bucket,) = buckets(
        [(used("2026-11-22T10:17:59.999Z"[: PERIOD_DIGITS[period]], "opus", 1), price)], period
    )
    assert bucket.at == start


def test_buckets_add_the_same_model_of_several_providers() -> None:
    sums = [(used("2026-11-22", "opus", 1), price), (used("2026-11-21", "opus", 4), price)]
    sums += [(used("2026-11-22", "opus", 2), price), (used("2026-11-22", "haiku", 8), price)]
    first, second = buckets(sums, UsagePeriod.DAY)
    assert first == UsageBucketView(
        "2026-11-21T00:00:00.000Z", tokens(1, 4), 4.0, [ModelUsageView("opus", tokens(1, 4), 4.0)]
    )
    assert second.models == [
        ModelUsageView("haiku", tokens(1, 8), 8.0),
        ModelUsageView("opus", tokens(2, 3), 3.0),
    ]
    assert (second.tokens, second.cost_usd) == (tokens(3, 11), 11.0)


def test_cost_of_a_bucket_is_unknown_when_one_price_is_unknown() -> None:
    (bucket,) = buckets(
        [(used("2026-11-22", "opus", 1), price), (used("2026-11-22", "unknown", 1), price)], UsagePeriod.DAY
    )
    assert bucket.cost_usd is None
    assert [m.cost_usd for m in bucket.models] == [1.0, None]


def test_cost_of_a_model_is_unknown_when_some_of_its_tokens_cannot_be_read() -> None:
    unread = Usage("", f"opus{UNREAD}", "2026-11-22")
    (bucket,) = buckets([(used("2026-11-22", "opus", 1), price), (unread, price)], UsagePeriod.DAY)
    assert bucket.models == [ModelUsageView("opus", tokens(1, 1), None)]
