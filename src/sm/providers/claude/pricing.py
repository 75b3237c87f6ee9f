"""What tokens cost, and how many fit into a conversation. Pure.

PRICES are Anthropic's public list prices for the API. They leave out what is not billed by token (web searches).
"""

from collections.abc import Iterable, Mapping

from sm.config import ModelPrices
from sm.core.usage import Usage

_OPUS = ModelPrices(input=5, output=25)
_SONNET = ModelPrices(input=3, output=15)

PRICES: Mapping[str, ModelPrices] = {
    "claude-opus-4-5": _OPUS,
    "claude-opus-4-6": _OPUS,
    "claude-opus-4-7": _OPUS,
    "claude-opus-4-8": _OPUS,
    "claude-sonnet-4": _SONNET,
    "claude-sonnet-5": _SONNET,
    "claude-haiku-4-5": ModelPrices(input=1, output=5),
    "claude-fable-5": ModelPrices(input=10, output=50),
    "claude-mythos-5": ModelPrices(input=10, output=50),
}
"""By the beginning of the model's name; the longest that fits counts."""


def prices_of(model: str, overrides: Mapping[str, ModelPrices] | None = None) -> ModelPrices | None:
    """What the model costs, as configured, else as we know it; None when nobody said so."""
    for prices in (overrides or {}, PRICES):
        fitting = [prefix for prefix in prices if model.startswith(prefix)]
        if fitting:
            return prices[max(fitting, key=len)]
    return None


def cost_usd(usages: Iterable[Usage], overrides: Mapping[str, ModelPrices] | None = None) -> float | None:
    """US dollars for messages, or sums of them by model.

    None as soon as the price of one model that used any is unknown: a part of the sum is not the cost.
    """
    total = 0.0
    for used in usages:
        if not used.context:
            continue
        prices = prices_of(used.model, overrides)
        if prices is None:
            return None
        total += _of(used, prices)
    return total


def _of(used: Usage, prices: ModelPrices) -> float:
    """With the cache in its usual proportion to the input: reading costs 0.1, writing 1.25, and 2 for an hour."""
    read = prices.input * 0.1 if prices.cache_read is None else prices.cache_read
    for_5_minutes = prices.input * 1.25 if prices.cache_write is None else prices.cache_write
    for_an_hour = prices.input * 2 if prices.cache_write is None else prices.cache_write
    return (
        used.input * prices.input
        + used.output * prices.output
        + used.cache_read * read
        + (used.cache_write - used.cache_write_1h) * for_5_minutes
        + used.cache_write_1h * for_an_hour
    ) / 1_000_000


def context_window(model: str) -> int:
    """Tokens that fit into a conversation. `model` is what the session was started with: only that has `[1m]`."""
    return 1_000_000 if model.endswith("[1m]") else 200_000
