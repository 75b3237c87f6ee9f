"""What tokens cost, and how many fit into a conversation. Pure.

ModelPrices are Anthropic's public list prices for the API. They leave out what is not billed by token (web searches).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sm.core.usage import Usage


@dataclass(frozen=True, slots=True)
class ModelPrices:
    """US dollars for a million tokens."""

    input: float
    output: float
    cache_read: float
    cache_write: float
    """Kept for 5 minutes."""
    cache_write_1h: float

    @classmethod
    def usual(cls, input: float, output: float) -> "ModelPrices":
        """With the cache in its usual proportion: reading costs 0.1 of the input, writing 1.25, for an hour 2."""
        return cls(input, output, input * 0.1, input * 1.25, input * 2)


_OPUS = ModelPrices.usual(5, 25)
_SONNET = ModelPrices.usual(3, 15)

PRICES: Mapping[str, ModelPrices] = {
    "claude-opus-4-5": _OPUS,
    "claude-opus-4-6": _OPUS,
    "claude-opus-4-7": _OPUS,
    "claude-opus-4-8": _OPUS,
    "claude-sonnet-4": _SONNET,
    "claude-sonnet-5": _SONNET,
    "claude-haiku-4-5": ModelPrices.usual(1, 5),
    "claude-fable-5": ModelPrices.usual(10, 50),
    "claude-mythos-5": ModelPrices.usual(10, 50),
}
"""By the beginning of the model's name; the longest that fits counts."""

_NONE: Mapping[str, ModelPrices] = {}


def prices_of(model: str, overrides: Mapping[str, ModelPrices] = _NONE) -> ModelPrices | None:
    """What the model costs, as configured, else as we know it; None when nobody said so."""
    for prices in (overrides, PRICES):
        fitting = [prefix for prefix in prices if model.startswith(prefix)]
        if fitting:
            return prices[max(fitting, key=len)]
    return None


def cost_usd(usages: Iterable[Usage], overrides: Mapping[str, ModelPrices] = _NONE) -> float | None:
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
    for_5_minutes = used.cache_write - used.cache_write_1h
    return (
        used.input * prices.input
        + used.output * prices.output
        + used.cache_read * prices.cache_read
        + for_5_minutes * prices.cache_write
        + used.cache_write_1h * prices.cache_write_1h
    ) / 1_000_000


def context_window(model: str) -> int:
    """Tokens that fit into a conversation. `model` is what the session was started with: only that has `[1m]`."""
    return 1_000_000 if model.endswith("[1m]") else 200_000
