"""Recorded conversations with codex's app-server (0.169.0), and what a link says about each frame.

A line is `{"t": seconds, "dir": "in" | "out" | "truth", "msg": ...}`. A line of `truth` is what the script that made
the recording did or saw itself.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sm.providers.codex.protocol import ProtocolReader
from sm.providers.links import LinkEvent

_T = TypeVar("_T")
FOLDER = Path("tests/data/codex")
NAMES = sorted(path.stem for path in FOLDER.glob("*.jsonl"))


@dataclass(frozen=True, slots=True)
class Line:
    t: float
    dir: str
    msg: Mapping[str, Any]


def lines_of(name: str) -> list[Line]:
    texts = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [Line(**json.loads(text)) for text in texts]


def truth_of(name: str) -> dict[str, Any]:
    """The truth of the whole recording: a later line replaces the earlier one."""
    merged: dict[str, Any] = {}
    for line in lines_of(name):
        merged |= line.msg if line.dir == "truth" else {}
    return merged


def began_at(lines: Iterable[Line]) -> float:
    """The time of the recording's beginning, in seconds since the epoch."""
    emitted = ((line.msg.get("emittedAtMs"), line.t) for line in lines)
    return next((at / 1000 - t for at, t in emitted if isinstance(at, int)), 1_795_324_000.0)


def feed(reader: ProtocolReader, lines: Sequence[Line]) -> list[LinkEvent]:
    said: list[LinkEvent] = []
    began = began_at(lines)
    for line in lines:
        at = began + line.t
        if line.dir == "out":
            said += reader.sent(line.msg, at)
        elif line.dir == "in":
            said += reader.received(line.msg, at)
    return said


def read(name: str) -> list[LinkEvent]:
    return feed(ProtocolReader(), lines_of(name))


def only(events: Sequence[LinkEvent], kind: type[_T]) -> list[_T]:
    return [event for event in events if isinstance(event, kind)]
