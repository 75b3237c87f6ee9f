"""Token prices and context window sizes. Pure.

PRICES are Anthropic's public list prices for the API. Other services (web searches) are not included.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from sm.config import ModelPrices
from sm.core.usage import Usage

_OPUS = ModelPrices(input=5, output=25)
_SONNET = ModelPrices(input=3, output=15)

PRICES_AS_OF = "2026-11-22"
"""The date at which PRICES were taken."""

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
"""By prefix of the model name; the longest match wins."""


def prices_of(model: str, overrides: Mapping[str, ModelPrices] | None = None) -> ModelPrices | None:
    """The configured prices of a model, else the list prices; None: unknown."""
    found = _longest_match(model, overrides) if overrides else None
    return found or _list_prices(model)


def _longest_match(model: str, prices: Mapping[str, ModelPrices]) -> ModelPrices | None:
    matching = [prefix for prefix in prices if model.startswith(prefix)]
    return prices[max(matching, key=len)] if matching else None


@lru_cache(maxsize=100)  # each message of an agent needs it
def _list_prices(model: str) -> ModelPrices | None:
    return _longest_match(model, PRICES)


_ALIASES = frozenset({"default", "best", "opus", "sonnet", "haiku", "fable", "opusplan"})
"""Names that claude resolves to one of its own models."""


def knows_price(model: str, overrides: Mapping[str, ModelPrices] | None = None) -> bool:
    """Return whether the price of a model is known that is named as for claude --model."""
    name = model.partition("[")[0]
    return name.lower() in _ALIASES or prices_of(name, overrides) is not None


def cost_usd(usages: Iterable[Usage], overrides: Mapping[str, ModelPrices] | None = None) -> float | None:
    """The price in US dollars of messages, or of sums by model.

    None if the price of any model with usage is unknown, because a partial sum would mislead.
    """
    total = 0.0
    for used in usages:
        if not used.context:
            continue
        prices = prices_of(used.model, overrides)
        if prices is None:
            return None
        total += _price(used, prices)
    return total


def _price(used: Usage, prices: ModelPrices) -> float:
    """Default cache prices relative to input: read 0.1, write 1.25, write for an hour 2."""
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
    """Maximum tokens of a conversation. `model`: from the session's start options, which alone have `[1m]`."""
    return 1_000_000 if model.endswith("[1m]") else 200_000
