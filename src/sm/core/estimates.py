"""Estimates the usage of a session at its end, from completed sessions or from its finished tasks. Pure."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from math import ceil

from sm.core.dataclass import dataclass
from sm.core.usage import COST_DIGITS, is_same_model


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


SAMPLES_MIN = 5
"""Fewer completed sessions prove nothing."""
SAMPLES_MAX = 50
"""Only so many of the newest sessions of the model count."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The usage of one session, completed or so far."""

    model: str | None
    seconds: float
    """From its start to its completion."""
    tokens: int | None
    """Input and output, or None if not counted."""
    cost_usd: float | None
    """None if unknown."""


class Basis(StrEnum):
    SESSIONS = "sessions"
    """Completed sessions of the same agent type and model."""
    TASKS = "tasks"
    """The finished tasks of the session itself."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The totals at the end of a session, never below what it has used. A field without evidence is null."""

    seconds: Spread | None
    """From the start to the completion."""
    tokens: Spread | None
    """Input and output."""
    cost_usd: Spread | None
    samples: int
    """The number of completed sessions or finished tasks that it rests on."""
    basis: Basis
    """`sessions`: completed ones of the same agent type and model, at least 5. `tasks`: its own finished ones."""


def estimate_totals(
    samples: Sequence[Sample],
    model: str | None,
    used: Sample | None = None,
    tasks: tuple[int, int] | None = None,
) -> Estimate | None:
    """Estimate the totals of a session with `model`, at least what it has `used`; None without evidence.

    `samples`: completed sessions of its agent type, the newest first. `tasks`: the finished ones and all; they decide
    if one is finished.
    """
    if used is not None and tasks is not None and tasks[0] > 0:
        return _by_tasks(used, *tasks)
    same = [sample for sample in samples if is_same_model(sample.model, model)][:SAMPLES_MAX]
    if len(same) < SAMPLES_MIN:
        return None
    spent = used or Sample(None, 0, None, None)
    return Estimate(
        _spread((s.seconds for s in same), spent.seconds),
        _spread((s.tokens for s in same), spent.tokens),
        _spread((s.cost_usd for s in same), spent.cost_usd),
        len(same),
        Basis.SESSIONS,
    )


def _spread(numbers: Iterable[float | None], used: float | None) -> Spread | None:
    known = [number for number in numbers if number is not None]
    found = spread(known) if len(known) >= SAMPLES_MIN else None
    return None if found is None else found.at_least(used or 0)


def _by_tasks(used: Sample, done: int, total: int) -> Estimate:
    """The average of a finished task, for each task."""
    rate = max(1.0, total / done)
    return Estimate(
        Spread(round(used.seconds * rate), round(used.seconds * rate)),
        None if used.tokens is None else Spread(round(used.tokens * rate), round(used.tokens * rate)),
        None if used.cost_usd is None else Spread(*[round(used.cost_usd * rate, COST_DIGITS)] * 2),
        done,
        Basis.TASKS,
    )
