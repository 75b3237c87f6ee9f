"""`python -m bench screens --dir DIR --provider claude [--json]`: measures how well screens are read.

DIR holds captures: NAME.txt with the output of `tmux capture-pane -p`, and NAME.json with the label in `state`.
"""

import argparse
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sm.providers.claude.screen import read_screen

READERS: Mapping[str, Callable[[Sequence[str]], str]] = {
    "claude": lambda lines: read_screen(lines).state.value,
}


@dataclass(frozen=True, slots=True)
class Reading:
    """The label of one capture, and the state that was read."""

    name: str
    label: str
    read: str


def main(arguments: Sequence[str]) -> int:
    """Return 0 when every capture is read as labelled, else 1; 2 without captures."""
    parser = argparse.ArgumentParser(
        prog="python -m bench screens", description="Measure how well screens are read."
    )
    parser.add_argument(
        "--dir", type=Path, required=True, help="directory with pairs of NAME.txt and NAME.json"
    )
    parser.add_argument("--provider", choices=sorted(READERS), required=True)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    readings = read(options.dir, READERS[options.provider])
    if not readings:
        parser.error(f"{options.dir} holds no pair of NAME.txt and NAME.json")
    scored = score(readings)
    print(json.dumps(scored, indent=2) if options.json else "\n".join(table(scored)))
    return int(bool(scored["errors"]))


def read(directory: Path, reader: Callable[[Sequence[str]], str]) -> list[Reading]:
    """Read every labelled capture of `directory`, in order of name."""
    readings = []
    for facts in sorted(directory.glob("*.json")):
        screen = facts.with_suffix(".txt")
        if screen.exists():
            label = str(json.loads(facts.read_text(encoding="utf-8"))["state"])
            lines = screen.read_text(encoding="utf-8").split("\n")
            readings.append(Reading(facts.stem, label, reader(lines)))
    return readings


def score(readings: Sequence[Reading]) -> dict[str, object]:
    """`{n, accuracy, precision: {label: x}, recall: {label: x}, errors: [{name, label, read}]}`.

    Omits the precision of a label that was never read, and the recall of a label without captures.
    """
    right = Counter(reading.label for reading in readings if reading.read == reading.label)
    labelled = Counter(reading.label for reading in readings)
    predicted = Counter(reading.read for reading in readings)
    return {
        "n": len(readings),
        "accuracy": right.total() / len(readings),
        "precision": {label: right[label] / predicted[label] for label in sorted(predicted)},
        "recall": {label: right[label] / labelled[label] for label in sorted(labelled)},
        "errors": [
            {"name": reading.name, "label": reading.label, "read": reading.read}
            for reading in readings
            if reading.read != reading.label
        ],
    }


def table(scored: Mapping[str, object]) -> list[str]:
    """The score as text: a line for each label, then each error."""
    precision, recall, errors = scored["precision"], scored["recall"], scored["errors"]
    assert isinstance(precision, dict)
    assert isinstance(recall, dict)
    assert isinstance(errors, list)
    lines = [f"{scored['n']} screens, accuracy {scored['accuracy']:.3f}", "", "label       precision  recall"]
    for label in sorted(precision.keys() | recall.keys()):
        cells = (f"{part[label]:.3f}" if label in part else "-" for part in (precision, recall))
        lines.append("{:<12}{:>9}{:>8}".format(label, *cells))
    return lines + [f"{error['name']}: {error['label']}, read as {error['read']}" for error in errors]
