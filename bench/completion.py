"""`python -m bench completion --corpus FILE.jsonl [--json]`: measures how well final messages are classified.

FILE.jsonl has one ending on each line: `{"text", "label", "task", "facts"}`, where `facts` holds fields of TurnFacts.
Each ending is read by the function that the daemon calls. A fact that a line lacks is one that the daemon would not
have. `--before TEXT` (repeatable) classifies each ending once for each text, put before its task.
The benchmark `classifier` measures the time of one classification.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.row import Effort, Judged, Row, alternate
from sm.capabilities.completion.model import Ending, TurnFacts
from sm.capabilities.completion.rules.turn_end import classify, read_turn_end

LABELS = tuple(ending.value for ending in Ending)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The label of one ending, and the classification."""

    text: str
    label: str
    predicted: str
    rule: str


def main(arguments: Sequence[str]) -> int:
    """Return 0 when every ending is classified as labelled, else 1; 2 without endings."""
    parser = argparse.ArgumentParser(
        prog="python -m bench completion", description="Measure how well final messages are classified."
    )
    parser.add_argument(
        "--corpus", type=Path, required=True, help="file with one labelled ending on each line"
    )
    parser.add_argument(
        "--before",
        action="append",
        metavar="TEXT",
        help="text to put before each task, such as 'Fix #1042: '",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    try:
        judgements = judge(options.corpus, options.before or ("",))
    except (OSError, ValueError, KeyError, TypeError) as error:
        parser.error(f"{options.corpus}: {error}")
    if not judgements:
        parser.error(f"{options.corpus} holds no ending")
    scored = score(judgements)
    print(json.dumps(scored, indent=2, ensure_ascii=False) if options.json else "\n".join(table(judgements)))
    return int(bool(scored["errors"]))


def judge(corpus: Path, before: Sequence[str] = ("",)) -> list[Judgement]:
    """Classify every ending of `corpus`, once for each text to put `before` its task.

    Raises ValueError, KeyError or TypeError for a wrong line.
    """
    judgements = []
    for line in corpus.read_text(encoding="utf-8").split("\n"):
        if line.strip():
            ending: dict[str, Any] = dict(json.loads(line))
            facts = TurnFacts(**(ending.get("facts") or {}))
            for front in before:
                prompt = f"{front}{ending.get('task') or ''}"
                found = read_turn_end(ending["text"], prompt, facts).classification
                judgements.append(Judgement(ending["text"], ending["label"], found.ending.value, found.rule))
    return judgements


def score(judgements: Sequence[Judgement]) -> dict[str, Any]:
    """`{n, accuracy, precision: {label: x}, recall: {label: x}, errors: [{text, label, predicted, rule}]}`.

    Omits the precision of a label that was never predicted, and the recall of a label without endings.
    """
    right = Counter(one.label for one in judgements if one.predicted == one.label)
    labelled = Counter(one.label for one in judgements)
    predicted = Counter(one.predicted for one in judgements)
    return {
        "n": len(judgements),
        "accuracy": right.total() / len(judgements),
        "precision": {label: right[label] / predicted[label] for label in sorted(predicted)},
        "recall": {label: right[label] / labelled[label] for label in sorted(labelled)},
        "errors": [
            {"text": one.text, "label": one.label, "predicted": one.predicted, "rule": one.rule}
            for one in judgements
            if one.predicted != one.label
        ],
    }


def table(judgements: Sequence[Judgement]) -> list[str]:
    """The confusion matrix as text, a row for each label and a column for each prediction, then each error."""
    scored = score(judgements)
    labels = [*LABELS, *sorted({one.label for one in judgements} - set(LABELS))]
    pairs = Counter((one.label, one.predicted) for one in judgements)
    lines = [
        f"{scored['n']} endings, accuracy {scored['accuracy']:.3f}",
        "",
        "{:<10}".format("label") + "".join(f"{label:>10}" for label in labels) + " precision    recall",
    ]
    for label in labels:
        cells = "".join(f"{pairs[label, other]:>10}" for other in labels)
        lines.append(f"{label:<10}{cells}{_part(scored['precision'], label)}{_part(scored['recall'], label)}")
    for error in scored["errors"]:
        words = " ".join(str(error["text"]).split())
        lines += [
            "",
            f"{error['label']}, classified as {error['predicted']} by {error['rule']}:",
            f"  {words}",
        ]
    return lines


def _part(parts: Mapping[str, float], label: str) -> str:
    return f"{parts[label]:>10.3f}" if label in parts else f"{'-':>10}"


_MESSAGE = """I've added a `--json` flag to `export`.

**What changed**
- `cli/export.py`: new option, passed on to the writer
- `writers/json_writer.py`: new writer that streams one object per row
- `tests/test_export.py`: three tests, including the empty export

All 88 tests pass and `ruff check` is clean. Let me know if you'd like a short note in the changelog, too.
"""
_LONG = 50_000


def measure(effort: Effort) -> Iterator[Row]:
    """The time of one classification, next to the time in which Python splits the same text into words."""
    facts = TurnFacts(tools_used=14)
    long = (_MESSAGE * (_LONG // len(_MESSAGE) + 1))[:_LONG]
    for what, text, gate, aim in (
        ("one final message classified, p50", _MESSAGE, 5, 1),
        ("a final message of 50,000 characters", long, 20, 10),
    ):
        pairs = alternate(10 * effort.pairs, partial(classify, text, "Add a flag", facts), text.split)
        yield pairs.row(what, "str.split", Judged.OURS, gate, aim)
