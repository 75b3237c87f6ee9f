"""Summary of a timeline, for its first lines: how long agents waited for a person, and the failures. Pure."""

from collections.abc import Sequence

from sm.board.lanes import Lane, LaneMark
from sm.core.dataclass import dataclass
from sm.core.lines import plural
from sm.core.statuses import Status
from sm.core.timestamps import span

_WORKING = (Status.RUNNING, Status.STARTING)


@dataclass(frozen=True, slots=True)
class LaneSummary:
    """The waits and failures of all lanes."""

    waited_s: float
    """The sum of all waits, also of those at the same time."""
    waits: int
    longest_s: float
    """The longest wait of one session in a piece."""
    longest_id: str
    """The session of that wait, or empty without any."""
    longest_label: str
    """Safe to show."""
    failures: Sequence[tuple[Lane, LaneMark]]
    """In the order of their times."""

    @property
    def waiting_words(self) -> str:
        """`Waiting for you: 1h 20min in total, 3 times, the longest 40min`."""
        if not self.waits:
            return "Waiting for you: never"
        times = f"{plural(self.waits, 'time')}, the longest {_length(self.longest_s)}"
        return f"Waiting for you: {_length(self.waited_s)} in total, {times}"

    @property
    def failure_words(self) -> str:
        """`2 failures`."""
        return plural(len(self.failures), "failure") if self.failures else "Nothing failed"


def summary_of(lanes: Sequence[Lane]) -> LaneSummary:
    waits = [
        (max(0.0, part.end_s - part.start_s), lane)
        for lane in lanes
        for part in lane.spans
        if part.status == Status.WAITING_INPUT
    ]
    longest_s, longest = max(waits, key=lambda wait: wait[0], default=(0.0, None))
    failures = sorted(
        ((lane, mark) for lane in lanes for mark in lane.marks if mark.is_failure),
        key=lambda failure: failure[1].at_s,
    )
    return LaneSummary(
        sum(length_s for length_s, _ in waits),
        len(waits),
        longest_s,
        "" if longest is None else longest.session_id,
        "" if longest is None else longest.label,
        failures,
    )


def load_of(
    lanes: Sequence[Lane], since_s: float, until_s: float, parts: int
) -> tuple[Sequence[int], Sequence[int]]:
    """The sessions that waited for a person, and those that worked, in each of `parts` equal parts of the time."""
    waiting, working = [0] * parts, [0] * parts
    for lane in lanes:
        waits, works = set[int](), set[int]()
        for part, (first, last) in lane.span_cells(since_s, until_s, parts):
            if part.status == Status.WAITING_INPUT:
                waits.update(range(first, last + 1))
            elif part.status in _WORKING:
                works.update(range(first, last + 1))
        for cell in waits:
            waiting[cell] += 1
        for cell in works:
            working[cell] += 1
    return waiting, working


def _length(seconds: float) -> str:
    """`5h 20min`, or below an hour as `span`. Waits of many agents add up to more than a day."""
    hours, minutes = int(seconds) // 3600, int(seconds) // 60 % 60
    return f"{hours}h {minutes}min" if hours else span(seconds)
