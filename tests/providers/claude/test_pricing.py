"""Prices of tokens, and sizes of context windows."""

import pytest

from sm.config import ModelPrices
from sm.core.usage import Usage
from sm.providers.claude.pricing import PRICES, context_window, cost_usd, prices_of

OPUS = "claude-opus-4-8"


@pytest.mark.parametrize(
    ("model", "input"),
    [
        ("claude-opus-4-5-20251101", 5),
        ("claude-opus-4-8", 5),
        ("claude-opus-4-8[1m]", 5),
        ("claude-sonnet-4-20250514", 3),
        ("claude-sonnet-4-6", 3),
        ("claude-haiku-4-5-20251001", 1),
        ("claude-opus-4-1-20250805", None),
        ("fast:claude-opus-4-8", None),
        ("gpt-5", None),
        ("", None),
    ],
)
def test_prices_of_returns_none_for_an_unknown_model(model: str, input: int | None) -> None:
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
    for name, prices in PRICES.items():
        an_hour = Usage("", name, "", cache_write=1_000_000, cache_write_1h=1_000_000)
        assert cost_usd([an_hour]) == prices.input * 2


def test_context_window_is_large_when_the_model_name_says_so() -> None:
    assert context_window("claude-opus-4-8[1m]") == 1_000_000
    assert context_window("claude-opus-4-8") == 200_000
