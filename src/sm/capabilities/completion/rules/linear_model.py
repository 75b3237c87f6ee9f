"""A linear model that judges whether a message supports `done`. `bench/training.py` finds its weights.

It judges twice: all features of the message together, and each sentence alone. The support is a mean of the message's
and the weakest sentence's log-odds, so one sentence that leaves the work open weakens a long report of success.
A third set of weights judges whether a message asks for a decision, a fourth one whether it tells of a failure or of an
obstacle.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path

from sm.capabilities.completion.rules.features import Weighed
from sm.core.dataclass import dataclass

WEIGHTS = Path(__file__).with_name("words") / "weights.tsv"
BIAS = "(bias)"
SCALE = 5.0
"""The length of a vector of features: long texts get no larger scores than short ones."""

PART_OF_SENTENCES = 0.25
"""The share of the weakest sentence in the log-odds."""

MESSAGE, SENTENCE, QUESTION, FAILURE = 0, 1, 2, 3


@dataclass(frozen=True, slots=True)
class Model:
    """The weights of features. A feature has one row for all parts: to look it up is most of the work."""

    rows: Mapping[str, int]
    columns: Sequence[Sequence[float | None]]
    """By MESSAGE, SENTENCE, QUESTION and FAILURE: the weight of each row, or None if that part lacks the feature."""


@dataclass(frozen=True, slots=True)
class Support:
    """The probability of `done`, and the sentence that speaks most against it, or None without sentences."""

    probability: float
    weakest: Weighed | None = None


@cache
def model() -> Model:
    """The model that is shipped."""
    rows: dict[str, int] = {}
    columns: tuple[list[float | None], ...] = ([], [], [], [])
    numbers: dict[str, float | None] = {"": None}  # few, so equal weights share an object
    for line in WEIGHTS.read_text(encoding="utf-8").rstrip("\n").split("\n"):
        feature, *cells = line.split("\t")
        rows[feature] = len(rows)
        for column, cell in zip(columns, cells, strict=True):
            if cell not in numbers:
                numbers[cell] = float(cell)
            column.append(numbers[cell])
    return Model(rows, columns)


def support(whole: Collection[str], sentences: Sequence[Weighed], trained: Model | None = None) -> Support:
    """Judge a message by its features. `trained`: another model than the one that is shipped."""
    trained = model() if trained is None else trained
    total = _log_odds(whole, trained, MESSAGE)
    if not sentences:
        return Support(_probability(total))
    odds, weakest = min(
        ((_log_odds(weighed.features, trained, SENTENCE), weighed) for weighed in sentences),
        key=lambda judged: judged[0],
    )
    total = (1 - PART_OF_SENTENCES) * total + PART_OF_SENTENCES * odds
    return Support(_probability(total), weakest)


def asks(whole: Collection[str]) -> float:
    """The probability that a message with these features asks for a decision."""
    return probability(whole, model(), QUESTION)


def fails(whole: Collection[str]) -> float:
    """The probability that a message with these features tells of a failure or of an obstacle."""
    return probability(whole, model(), FAILURE)


def weakest_place(weighed: Weighed) -> int:
    """The place in the sentence that speaks most against `done`."""
    rows, weights = model().rows, model().columns[SENTENCE]

    def weight(feature: str) -> float:
        row = rows.get(feature)
        return 0.0 if row is None else weights[row] or 0.0

    return weighed.features[min(weighed.features, key=weight)]


def probability(features: Collection[str], trained: Model, part: int) -> float:
    """The probability by one part of the model: MESSAGE, SENTENCE, QUESTION or FAILURE."""
    return _probability(_log_odds(features, trained, part))


def _log_odds(features: Collection[str], trained: Model, part: int) -> float:
    weights = trained.columns[part]
    rows = map(trained.rows.get, features)
    present = [weight for row in rows if row is not None and (weight := weights[row]) is not None]
    bias = weights[trained.rows[BIAS]] or 0.0
    return bias + SCALE * sum(present) / math.sqrt(len(present) or 1)


def _probability(log_odds: float) -> float:
    return 1 / (1 + math.exp(-log_odds))
