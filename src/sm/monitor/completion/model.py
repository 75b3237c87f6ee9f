"""A linear model that judges whether a message supports `done`. `bench/training.py` finds its weights.

It judges twice: all features of the message together, and each sentence alone. The smaller probability counts, so one
sentence that leaves the work open outweighs a long report of success.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sm.monitor.completion.features import Weighed
from sm.monitor.completion.message import Sentence

WEIGHTS = Path(__file__).with_name("words") / "weights.tsv"
BIAS = "(bias)"
SCALE = 5.0
"""The length of a vector of features: long texts get no larger scores than short ones."""

Weights = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Model:
    """The weights of features of whole messages, and those of features of single sentences."""

    message: Weights
    sentence: Weights


@dataclass(frozen=True, slots=True)
class Support:
    """The probability of `done`, and the sentence that speaks most against it (None: a message without sentences)."""

    probability: float
    weakest: Sentence | None = None
    at: int = 0
    """The place in the weakest sentence that speaks most against `done`."""


@cache
def model() -> Model:
    message: dict[str, float] = {}
    sentence: dict[str, float] = {}
    for line in WEIGHTS.read_text(encoding="utf-8").split("\n"):
        if line:
            feature, of_message, of_sentence = line.split("\t")
            if of_message:
                message[feature] = float(of_message)
            if of_sentence:
                sentence[feature] = float(of_sentence)
    return Model(message, sentence)


def support(whole: Collection[str], sentences: Sequence[Weighed], trained: Model | None = None) -> Support:
    """Judge a message by its features. `trained`: another model than the one that is shipped."""
    trained = model() if trained is None else trained
    least, weakest = probability(whole, trained.message), None
    alone = [(probability(weighed.features, trained.sentence), weighed) for weighed in sentences]
    if alone:
        of_sentence, weakest = min(alone, key=lambda judged: judged[0])
        least = min(least, of_sentence)
    if weakest is None:
        return Support(least)
    weights = trained.sentence
    feature = min(weakest.features, key=lambda name: weights.get(name, 0.0))
    return Support(least, weakest.sentence, weakest.features[feature])


def probability(features: Collection[str], weights: Weights) -> float:
    present = [weights[feature] for feature in features if feature in weights]
    total = weights[BIAS] + SCALE * sum(present) / math.sqrt(len(present) or 1)
    return 1 / (1 + math.exp(-total))
