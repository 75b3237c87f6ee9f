"""Percentiles of measured numbers. Pure."""

from collections.abc import Sequence
from math import ceil

from sm.core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """The median and the 90th percentile of some numbers: numbers that were measured, none in between."""

    p50: float
    p90: float

    def at_least(self, bound: float) -> "Spread":
        return Spread(max(self.p50, bound), max(self.p90, bound))


def spread(numbers: Sequence[float]) -> Spread | None:
    """The spread of `numbers` by nearest rank; None of no numbers."""
    if not numbers:
        return None
    ranked = sorted(numbers)
    return Spread(_ranked(ranked, 50), _ranked(ranked, 90))


def _ranked(ranked: Sequence[float], percent: int) -> float:
    return ranked[ceil(percent * len(ranked) / 100) - 1]
