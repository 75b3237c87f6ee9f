"""`python -m bench.training`: trains the model of `done` on the labelled endings of train.jsonl.

Both parts of the model are logistic regressions with an L2 penalty, found by stochastic gradient descent in a fixed
order: the same corpus gives the same file. The part for sentences learns that every sentence of a `done` message is
harmless, and that one sentence of every other message is not. The labels do not say which sentence: the first round
takes the last one, and every further round takes the one that speaks most against `done` by the round before.

`--folds N` writes nothing. It trains N models, each without a part of the tasks, and prints how well thresholds work
on the endings that the model has not seen.
"""

import argparse
import json
import math
import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from sm.capabilities.completion.model import Ending, TurnFacts
from sm.capabilities.completion.rules.features import TROUBLE, Weighed
from sm.capabilities.completion.rules.judgement import JudgedTurn
from sm.capabilities.completion.rules.linear_model import (
    BIAS,
    SCALE,
    SENTENCE,
    WEIGHTS,
    Model,
    probability,
    support,
)

FEWEST = 3
"""Texts that a feature must occur in."""
EPOCHS = 30
RATE = 0.1
PENALTY_OF_MESSAGES, PENALTY_OF_QUESTIONS, PENALTY_OF_SENTENCES, PENALTY_OF_FAILURES = 0.5, 1.0, 0.33, 0.5
WEIGHT_OF_OPEN_SENTENCES = 0.5
"""The weight of the sentence of a message that is not done, next to that of all sentences of a `done` message."""
ROUNDS = 3
DIGITS = 2
THRESHOLDS = (0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)


@dataclass(frozen=True, slots=True)
class Example:
    """The features of an ending, and whether its task is done."""

    task: str
    features: Collection[str]
    sentences: Sequence[Weighed]
    done: bool
    question: bool
    failure: bool


@dataclass(frozen=True, slots=True)
class Text:
    """The features of a message or of a sentence, and how much it counts."""

    features: Collection[str]
    done: bool
    weight: float = 1.0


def examples(corpus: Path) -> list[Example]:
    found = []
    for line in corpus.read_text(encoding="utf-8").split("\n"):
        if line.strip():
            ending = json.loads(line)
            turn = JudgedTurn.of(ending["text"], ending["task"], TurnFacts(**ending["facts"]))
            label = ending["label"]
            found.append(
                Example(
                    turn.task,
                    sorted(turn.features),
                    turn.weighed,
                    label == Ending.DONE,
                    label == Ending.QUESTION,
                    label in (Ending.FAILED, Ending.BLOCKED),
                )
            )
    return found


def train(learned: Sequence[Example]) -> Model:
    messages = _bounded(_regression([Text(one.features, one.done) for one in learned], PENALTY_OF_MESSAGES))
    told = [one for one in learned if one.sentences]
    harmless = [
        Text(sentence.features, done=True, weight=1 / math.sqrt(len(one.sentences)))
        for one in told
        if one.done
        for sentence in one.sentences
    ]
    left = [one for one in told if not one.done]
    blamed = [one.sentences[-1] for one in left]
    sentences: Mapping[str, float] = {}
    for _ in range(ROUNDS):
        open_ends = [
            Text(sentence.features, done=False, weight=WEIGHT_OF_OPEN_SENTENCES) for sentence in blamed
        ]
        sentences = _regression([*harmless, *open_ends], PENALTY_OF_SENTENCES)
        model = _model({}, sentences, {}, {})
        blamed = [
            min(one.sentences, key=lambda told: probability(told.features, model, SENTENCE)) for one in left
        ]
    questions = _regression([Text(one.features, one.question) for one in learned], PENALTY_OF_QUESTIONS)
    # By its words alone: a turn with errors may end well, and the errors of a turn may be unknown.
    words = [Text([name for name in one.features if name not in TROUBLE], one.failure) for one in learned]
    failures = _regression(words, PENALTY_OF_FAILURES)
    return _model(messages, sentences, questions, failures)


def _model(*parts: Mapping[str, float]) -> Model:
    """The weights of messages, sentences, questions and failures by feature."""
    features = sorted(set().union(*parts))
    rows = {feature: row for row, feature in enumerate(features)}
    return Model(rows, [[part.get(feature) for feature in features] for part in parts])


def _regression(texts: Sequence[Text], penalty: float) -> Mapping[str, float]:
    """The weight of each feature that is not rare."""
    counts = Counter(feature for text in texts for feature in text.features)
    names = sorted(feature for feature, count in counts.items() if count >= FEWEST)
    numbers = {feature: number for number, feature in enumerate(names)}
    rows = [
        ([numbers[feature] for feature in text.features if feature in numbers], text.done, text.weight)
        for text in texts
    ]
    weights, bias, shrunk = [0.0] * len(names), 0.0, 1.0  # the weights are `shrunk` times the list
    order = random.Random(0)
    decay = penalty / len(rows)
    step = 0
    for _ in range(EPOCHS):
        order.shuffle(rows)
        for row, done, weight in rows:
            step += 1
            rate = RATE / (1 + RATE * decay * step)
            value = SCALE / math.sqrt(len(row) or 1)
            total = bias + shrunk * value * sum(weights[number] for number in row)
            error = weight * (done - 1 / (1 + math.exp(-total)))
            shrunk *= 1 - rate * decay
            change = rate * error * value / shrunk
            for number in row:
                weights[number] += change
            bias += rate * error
    found = {name: weight * shrunk for name, weight in zip(names, weights, strict=True)}
    return {BIAS: bias, **found}


def _bounded(messages: Mapping[str, float]) -> Mapping[str, float]:
    """The weights for `done`, where a fact of trouble never speaks for it, and none of its absence against it."""
    return {name: min(weight, 0.0) if name in TROUBLE else weight for name, weight in messages.items()}


def judge(trained: Model, example: Example) -> float:
    return support(example.features, example.sentences, trained).probability


def validate(found: Sequence[Example], folds: int) -> list[float]:
    """The probability of each example, of a model that was trained without the tasks of its fold."""
    fold_of = [crc32(example.task.encode()) % folds for example in found]
    judged = [0.0] * len(found)
    for fold in range(folds):
        trained = train([example for example, part in zip(found, fold_of, strict=True) if part != fold])
        for number, example in enumerate(found):
            if fold_of[number] == fold:
                judged[number] = judge(trained, example)
    return judged


def table(trained: Model) -> list[str]:
    """The lines of the file: a feature, and its weights by part of the model. Omits zeros."""
    lines = []
    for feature, number in sorted(trained.rows.items()):
        row = [_rounded(column[number] or 0.0) for column in trained.columns]
        if any(row) or feature == BIAS:
            lines.append("\t".join((feature, *row)))
    return lines


def _rounded(weight: float) -> str:
    text = f"{weight:.{DIGITS}f}"
    return "" if float(text) == 0 else text


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.training", description=__doc__)
    corpus = Path("tests/data/completion/train.jsonl")
    parser.add_argument("--corpus", type=Path, default=corpus, help=f"labelled endings (default: {corpus})")
    parser.add_argument("--folds", type=int, help="cross-validate with so many folds, and write nothing")
    options = parser.parse_args()
    found = examples(options.corpus)
    if options.folds:
        judged = validate(found, options.folds)
        for limit in THRESHOLDS:
            kept = [example.done for example, value in zip(found, judged, strict=True) if value >= limit]
            recall = sum(kept) / sum(example.done for example in found)
            print(f"threshold {limit}: precision {sum(kept) / len(kept):.3f}, recall {recall:.3f}")
        return
    lines = table(train(found))
    WEIGHTS.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines)} features of {len(found)} endings in {WEIGHTS}")


if __name__ == "__main__":
    main()
