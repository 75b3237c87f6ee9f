"""Prices of tokens, and sizes of context windows."""

import pytest

from sm.config import ModelPrices
from sm.core.usage import Usage
from sm.providers.claude.pricing import (
    context_window,
    cost_usd,
    knows_price,
    listed_models,
    prices_of,
    with_tariff,
)

OPUS = "claude-opus-4-8"


@pytest.mark.parametrize(
    ("model", "input"),
    [
        ("claude-opus-4-5-20251101", 5),
        ("claude-opus-4-8", 5),
        ("claude-opus-4-8[1m]", 5),
        ("claude-opus-5-5", 4),
        ("claude-opus-5-5-20270101", 4),
        ("claude-sonnet-4-20250514", 3),
        ("claude-sonnet-4-6", 3),
        ("claude-sonnet-5", 2),
        ("claude-haiku-4-5-20251001", 1),
        ("claude-haiku-5-5", 0.1),
        ("claude-haiku-5-5[long prompt]", 0.5),
        ("claude-opus-4-1-20250805", 15),
        ("claude-opus-5-6", None),
        ("claude-opus-4-9", None),
        ("claude-sonnet-4-6-mini", None),
        ("fast:claude-opus-4-8", None),
        ("gpt-5", None),
        ("", None),
    ],
)
def test_prices_of_returns_none_for_an_unknown_model(model: str, input: float | None) -> None:
    prices = prices_of(model)
    assert (prices and prices.input) == input


def test_cost_usd_adds_up_all_kinds_of_tokens() -> None:
    million = 1_000_000
    used = Usage("", OPUS, "", million, million, million, 3 * million, cache_write_1h=million)
    assert cost_usd([used]) == pytest.approx(5 + 25 + 0.5 + 2 * 6.25 + 10)
    both = [Usage("", OPUS, "", input=million), Usage("", "claude-haiku-4-5", "", output=million)]
    assert cost_usd(both) == pytest.approx(5 + 5)
    assert cost_usd([]) == 0


def test_cost_usd_is_unknown_when_one_price_is_unknown() -> None:
    assert cost_usd([Usage("", OPUS, "", 1), Usage("", "other", "", 1)]) is None
    assert cost_usd([Usage("", OPUS, "", 1_000_000), Usage("", "other", "")]) == 5
    assert cost_usd([Usage("", "other", "", 1)], {"oth": ModelPrices(input=1, output=1)}) == pytest.approx(
        1e-6
    )


def test_configured_prices_come_first_and_the_longest_prefix_wins() -> None:
    configured = {
        "claude-": ModelPrices(input=1, output=1),
        "claude-opus": ModelPrices(input=2, output=2),
        "gpt": ModelPrices(input=9, output=9),
    }
    assert [
        p and p.input for p in (prices_of(m, configured) for m in (OPUS, "claude-sonnet-4-6", "gpt-5", "x"))
    ] == [2, 1, 9, None]
    for name, prices in listed_models().items():
        an_hour = Usage("", name, "", cache_write=1_000_000, cache_write_1h=1_000_000)
        assert cost_usd([an_hour]) == prices.input * 2


def test_long_prompts_of_haiku_have_their_own_tariff() -> None:
    assert with_tariff("claude-haiku-5-5", 100_000) == "claude-haiku-5-5"
    long = with_tariff("claude-haiku-5-5", 100_001)
    assert with_tariff("claude-opus-5-5", 900_000) == "claude-opus-5-5"
    million = 1_000_000
    used = Usage("", long, "", million, million, million, 2 * million, cache_write_1h=million)
    assert cost_usd([used]) == pytest.approx(0.5 + 2.5 + 0.05 + 0.625 + 1)
    short = Usage("", "claude-haiku-5-5", "", input=million, cache_read=million)
    assert cost_usd([used, short]) == pytest.approx(4.675 + 0.1 + 0.01)
    own = {"claude-haiku": ModelPrices(input=7, output=7)}
    assert cost_usd([Usage("", long, "", input=million)], own) == 7


def test_reads_of_the_cache_have_the_price_of_the_model() -> None:
    million = 1_000_000
    reads = {name: cost_usd([Usage("", name, "", cache_read=million)]) for name in listed_models()}
    assert (reads["claude-opus-5"], reads["claude-opus-5-5"], reads["claude-sonnet-5-5"]) == (0.5, 0.2, 0.1)
    assert (reads["claude-fable-5"], reads["claude-fable-5-1"], reads["claude-fable-5-2"]) == (1, 0.25, 0.2)


def test_price_of_an_alias_is_known_and_that_of_an_unlisted_model_is_not() -> None:
    assert knows_price("Haiku")
    assert knows_price("opus[1m]")
    assert knows_price("claude-sonnet-5-5")
    assert not knows_price("claude-sonnet-5-6")
    assert knows_price("claude-sonnet-5-6", {"claude-sonnet": ModelPrices(input=1, output=1)})


@pytest.mark.parametrize(
    ("model", "version", "window"),
    [
        ("claude-opus-4-8[1m]", "2.1.197", 1_000_000),
        ("claude-opus-4-8", "2.1.197", 200_000),
        ("claude-opus-4-8", "2.1.332", 1_000_000),
        ("claude-opus-4-8", "", 1_000_000),
        ("claude-opus-4-8", "next", 1_000_000),
        ("claude-opus-4-6", "2.1.332", 200_000),
        ("claude-opus-4-6[1m]", "2.1.332", 1_000_000),
        ("claude-haiku-4-5-20251001", "2.2", 200_000),
        ("claude-haiku-5-5[long prompt]", "2.1.332", 1_000_000),
        ("my-model", "2.1.197", 200_000),
        ("my-model", "2.1.332", 1_000_000),
    ],
)
def test_context_window_depends_on_the_model_and_the_version(model: str, version: str, window: int) -> None:
    assert context_window(model, version) == window
