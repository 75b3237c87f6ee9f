"""Token prices and context window sizes.

The list prices and the windows are in the dialect. Other services (web searches) are not included.
"""

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Any

from sm.config import ModelPrices
from sm.core.dataclass import dataclass
from sm.core.usage import Usage, base_model
from sm.providers.claude.dialect import Known, current, models, version_in

_LONG_PROMPT = "[long prompt]"
"""Follows the name of a model in usage that has the tariff for long prompts. Sums are kept by name."""


@dataclass(frozen=True, slots=True)
class _Model:
    prices: ModelPrices
    window: int
    long_above: int | None = None
    """The tokens of a prompt above which `long_prices` apply, or None if the model has one tariff."""
    long_prices: ModelPrices | None = None


@dataclass(frozen=True, slots=True)
class _Catalogue:
    as_of: str
    aliases: frozenset[str]
    suffix_window: int
    """The context window of a name with `[1m]`."""
    models: Mapping[str, _Model]
    """By full name without a date."""


@cache
def _catalogue() -> _Catalogue:
    data = models()
    listed = {name: _model(entry) for entry in data["models"] for name in entry["names"]}
    return _Catalogue(data["as_of"], frozenset(data["aliases"]), data["suffix_window"], listed)


def _model(entry: Mapping[str, Any]) -> _Model:
    long = entry.get("long_prompt")
    if long is None:
        return _Model(_prices(entry), entry["window"])
    return _Model(_prices(entry), entry["window"], long["above"], _prices(long))


def _prices(entry: Mapping[str, Any]) -> ModelPrices:
    return ModelPrices(input=entry["input"], output=entry["output"], cache_read=entry["cache_read"])


def prices_as_of() -> str:
    """The date (ISO 8601) at which the list prices were taken."""
    return _catalogue().as_of


def listed_models() -> Mapping[str, ModelPrices]:
    """The list prices by full name of the model."""
    return {name: model.prices for name, model in _catalogue().models.items()}


def prices_of(model: str, overrides: Mapping[str, ModelPrices] | None = None) -> ModelPrices | None:
    """Return the configured prices of a model, else the list prices. Returns None if its price is unknown."""
    found = _longest_match(model, overrides) if overrides else None
    return found or _list_prices(model)


def _longest_match(model: str, prices: Mapping[str, ModelPrices]) -> ModelPrices | None:
    matching = [prefix for prefix in prices if model.startswith(prefix)]
    return prices[max(matching, key=len)] if matching else None


@lru_cache(maxsize=100)  # each message of an agent needs it
def _list_prices(model: str) -> ModelPrices | None:
    found = _catalogue().models.get(base_model(model))
    if found is not None and model.endswith(_LONG_PROMPT):
        return found.long_prices
    return None if found is None else found.prices


def with_tariff(model: str, prompt_tokens: int) -> str:
    """Return the name of a model for usage, with a mark if the tariff for long prompts applies."""
    above = _long_above(model)
    return model if above is None or prompt_tokens <= above else model + _LONG_PROMPT


@lru_cache(maxsize=100)
def _long_above(model: str) -> int | None:
    found = _catalogue().models.get(base_model(model))
    return None if found is None else found.long_above


def knows_price(model: str, overrides: Mapping[str, ModelPrices] | None = None) -> bool:
    """Return whether the price of a model is known that is named as for claude --model."""
    name = model.partition("[")[0]
    return name.lower() in _catalogue().aliases or prices_of(name, overrides) is not None


def cost_usd(usages: Iterable[Usage], overrides: Mapping[str, ModelPrices] | None = None) -> float | None:
    """Return the price in US dollars of messages, or of sums by model.

    Returns None if the price of any model with usage is unknown, or the tokens of any message, because a partial sum
    would mislead.
    """
    total = 0.0
    for used in usages:
        if used.is_unread:
            return None
        if not used.context:
            continue
        prices = prices_of(used.model, overrides)
        if prices is None:
            return None
        total += _price(used, prices)
    return total


def _price(used: Usage, prices: ModelPrices) -> float:
    """Return the price of usage. Configured prices may omit the cache: read 0.1 of input, write 1.25, an hour 2."""
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


def context_window(model: str, version: str = "") -> int:
    """Return the maximum tokens of a conversation.

    `model`: from the session's start options, which alone have `[1m]`. `version`: of claude, or empty if unknown, which
    counts as the newest.
    """
    catalogue = _catalogue()
    if model.endswith("[1m]"):
        return catalogue.suffix_window
    unlisted = max(1, int(current().choose("window.unlisted", Known(version_in(version))).value))
    # An earlier claude has this window for each model.
    if current().choose("window.by_model", Known(version_in(version))).value is False:
        return unlisted
    found = catalogue.models.get(base_model(model))
    return unlisted if found is None else found.window
