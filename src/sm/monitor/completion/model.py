"""A linear model that judges whether a message supports `done`. `bench/training.py` finds its weights.

It judges twice: all features of the message together, and each sentence alone. The support is a mean of the message's
and the weakest sentence's log-odds, so one sentence that leaves the work open weakens a long report of success.
A third set of weights judges whether a message asks for a decision.
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

PART_OF_SENTENCES = 0.25
"""The share of the weakest sentence in the log-odds."""

Weights = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Model:
    """The weights of features of whole messages, of single sentences, and of messages that ask a question."""

    message: Weights
    sentence: Weights
    question: Weights


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
    question: dict[str, float] = {}
    for line in WEIGHTS.read_text(encoding="utf-8").split("\n"):
        if line:
            feature, of_message, of_sentence, of_question = line.split("\t")
            if of_message:
                message[feature] = float(of_message)
            if of_sentence:
                sentence[feature] = float(of_sentence)
            if of_question:
                question[feature] = float(of_question)
    return Model(message, sentence, question)


def support(whole: Collection[str], sentences: Sequence[Weighed], trained: Model | None = None) -> Support:
    """Judge a message by its features. `trained`: another model than the one that is shipped."""
    trained = model() if trained is None else trained
    total = _log_odds(whole, trained.message)
    if not sentences:
        return Support(_probability(total))
    weights = trained.sentence
    odds, weakest = min(
        ((_log_odds(weighed.features, weights), weighed) for weighed in sentences),
        key=lambda judged: judged[0],
    )
    total = (1 - PART_OF_SENTENCES) * total + PART_OF_SENTENCES * odds
    feature = min(weakest.features, key=lambda name: weights.get(name, 0.0))
    return Support(_probability(total), weakest.sentence, weakest.features[feature])


def asks(whole: Collection[str], trained: Model | None = None) -> float:
    """The probability that a message with these features asks for a decision."""
    return probability(whole, (model() if trained is None else trained).question)


def probability(features: Collection[str], weights: Weights) -> float:
    return _probability(_log_odds(features, weights))


def _log_odds(features: Collection[str], weights: Weights) -> float:
    present = [weight for weight in map(weights.get, features) if weight is not None]
    return weights[BIAS] + SCALE * sum(present) / math.sqrt(len(present) or 1)


def _probability(log_odds: float) -> float:
    return 1 / (1 + math.exp(-log_odds))
