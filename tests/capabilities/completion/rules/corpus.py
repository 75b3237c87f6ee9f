"""The labelled endings of tests/data/completion."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).parents[3] / "data/completion"
PARTS = ("train", "held_out", "held_out_e", "held_out_g", "held_out_r")
"""The weights are trained on `train`. The phrases were written with `held_out` in view, and without the other parts.
`held_out_g` and `held_out_r` were written after weights and rules were frozen, and measured once (docs/benchmarks.md).
"""


def endings(part: str) -> Sequence[dict[str, Any]]:
    """The endings of one part: each has `text`, `label`, `task` and `facts`."""
    lines = (CORPUS / f"{part}.jsonl").read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line]
