"""A row of the result: the measurement, its floor, and the bounds that it must hold."""

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


@dataclass(frozen=True, slots=True)
class Effort:
    """The amount of work to measure. The names of rows contain the numbers of sessions."""

    pairs: int = 30
    """Repetitions of a short measurement, each next to its floor."""
    stored: int = 1000
    sessions: int = 100
    restored: int = 300
    restarts: int = 5
    watch_s: float = 20.0
    looks_s: float = 60.0
    """How long `warnings` measures: two looks at each session that works."""
    rested_s: float = 62.0
    """The age of sessions at rest in `views`: below a minute, every row shows another age every second."""
    live: tuple[int, ...] = (10, 100, 300)
    """Live sessions in the stages of `growth`, and then ended sessions on top of the last number."""
    ended: tuple[int, ...] = (1000, 5000)
    history: int = 20_000
    """Sessions that ended long ago, in `history`."""
    transcript_mb: int = 200
    containers: int = 10
    sandboxed: int = 20
    """Sandboxed sessions that are watched at the same time."""
    pumps: int = 50
    """Processes of `sm mcp` at the same time."""
    changed_lines: int = 10_000
    """Changed lines in `changes`."""
    looks: int = 7
    """How often `changes` opens the tab."""
    files: int = 100_000
    """Files of the repository of `worktrees`."""
    trees: int = 9
    """Worktrees that `worktrees` makes, each next to one by hand."""


class Judged(StrEnum):
    """The number that gate and aim bound."""

    OURS = "ours"
    RATIO = "ratio"
    ABOVE = "above"
    """The difference between ours and the floor."""


@dataclass(frozen=True, slots=True)
class Row:
    """`ours` and `floor` are in `unit`; `ratio` is the median of the ratios of pairs, where there are pairs."""

    what: str
    unit: str
    ours: float
    floor: float | None = None
    floor_is: str = ""
    ratio: float | None = None
    judged: Judged = Judged.OURS
    gate: float | None = field(default=None, kw_only=True)
    aim: float | None = field(default=None, kw_only=True)

    @property
    def value(self) -> float:
        """The number that gate and aim bound."""
        if self.judged is Judged.RATIO and self.ratio is not None:
            return self.ratio
        if self.judged is Judged.ABOVE and self.floor is not None:
            return self.ours - self.floor
        return self.ours

    def holds(self, bound: float | None) -> bool | None:
        return None if bound is None else self.value <= bound

    def as_json(self) -> dict[str, Any]:
        """The documented shape of one row (docs/benchmarks.md)."""
        return {
            "what": self.what,
            "unit": self.unit,
            "ours": round(self.ours, 4),
            "floor": None if self.floor is None else round(self.floor, 4),
            "floor_is": self.floor_is or None,
            "ratio": None if self.ratio is None else round(self.ratio, 3),
            "judged": self.judged.value,
            "value": round(self.value, 4),
            "gate": self.gate,
            "aim": self.aim,
            "holds_gate": self.holds(self.gate),
            "holds_aim": self.holds(self.aim),
        }


@dataclass(frozen=True, slots=True)
class Pairs:
    """Measurements taken in turn with those of a floor, in milliseconds."""

    ours: list[float]
    floor: list[float]

    @property
    def ratio(self) -> float:
        """The median of the ratios of pairs: a disturbance of the machine affects both numbers of a pair."""
        return statistics.median(a / b for a, b in zip(self.ours, self.floor, strict=True))

    def row(self, what: str, floor_is: str, judged: Judged, gate: float | None, aim: float | None) -> Row:
        ours, floor = statistics.median(self.ours), statistics.median(self.floor)
        return Row(what, "ms", ours, floor, floor_is, self.ratio, judged, gate=gate, aim=aim)


def timed_ms(act: Callable[[], object]) -> float:
    begin = time.perf_counter()
    act()
    return (time.perf_counter() - begin) * 1000


def alternate(times: int, ours: Callable[[], object], floor: Callable[[], object]) -> Pairs:
    """Measure both in turn, after one uncounted call of each."""
    ours(), floor()
    pairs = [(timed_ms(ours), timed_ms(floor)) for _ in range(times)]
    return Pairs([a for a, _ in pairs], [b for _, b in pairs])


_HEADS = ("what", "ours", "floor", "ratio", "gate", "aim", "holds", "the floor is")


def table(rows: Iterable[Row]) -> list[str]:
    """The rows as aligned text. `+` before a bound: of the difference from the floor; `x` after it: of the ratio."""
    lines = [_HEADS, *(_cells(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    first, last = 0, len(_HEADS) - 1
    return [
        "  ".join(
            cell.ljust(width) if place in (first, last) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def _cells(row: Row) -> tuple[str, ...]:
    if row.gate is None:
        holds = "-"
    elif not row.holds(row.gate):
        holds = "NO"
    else:
        holds = "aim" if row.holds(row.aim) else "gate"
    return (
        f"{row.what}, {row.unit}" if row.unit else row.what,
        _number(row.ours),
        "" if row.floor is None else _number(row.floor),
        "" if row.ratio is None else f"{row.ratio:.2f}",
        _bound(row, row.gate),
        _bound(row, row.aim),
        holds,
        row.floor_is,
    )


def _bound(row: Row, bound: float | None) -> str:
    if bound is None:
        return "-"
    match row.judged:
        case Judged.OURS:
            return f"{bound:g}"
        case Judged.RATIO:
            return f"{bound:g}x"
        case Judged.ABOVE:
            return f"+{bound:g}"


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) or value >= 100 else f"{value:.2f}"
