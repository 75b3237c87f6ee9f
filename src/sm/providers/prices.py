"""The list prices of the providers."""

from collections.abc import Mapping

from sm.core.tree_totals import Price
from sm.providers.base import Provider


def price_of(providers: Mapping[str, Provider], name: str) -> Price:
    """The price of usage. Unknown for an agent CLI that this version of sm does not know."""
    provider = providers.get(name)
    return (lambda usages: None) if provider is None else provider.cost_usd


def prices_as_of(providers: Mapping[str, Provider]) -> str | None:
    """The date of the oldest list prices, or None if no provider has prices."""
    return min((p.prices_as_of for p in providers.values() if p.prices_as_of), default=None)
