"""The timeline of live views: when each session had which status, nested as the tree. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from sm.board.details import utc
from sm.board.words import shown, status_word
from sm.core.dataclass import dataclass
from sm.core.forest import Forest
from sm.core.lines import clock
from sm.core.statuses import Status
from sm.core.timestamps import epoch_s, iso, span

if TYPE_CHECKING:
    from sm.client.live_stream import Json

_WEIGHTS = {Status.WAITING_INPUT: 3, Status.ERROR: 2, Status.KILLED: 2, Status.ABANDONED: 2}
"""The status that a cell shows if several fit into it."""
MARKS = {"request": "?", "message": "✉", "checkpoint": "◆", "error": "✗", "abandoned": "✗"}
"""The events that a lane shows, by their type."""
FAILED_MARKS = frozenset({"error", "abandoned"})
"""The marks that a person must see first. A killed agent did not fail: somebody ended it."""


@dataclass(frozen=True, slots=True)
class LaneSpan:
    status: str
    start_s: float
    end_s: float
    reason: str

    @property
    def word(self) -> str:
        return status_word(self.status, stale=False)

    def words(self, now_s: float) -> str:
        """`waiting for 3min, 15:10:02 to 15:13:04: Bash ls`."""
        end = "now" if self.end_s >= now_s else _time(self.end_s, now_s)
        length = span(max(0.0, self.end_s - self.start_s))
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.word} for {length}, {_time(self.start_s, now_s)} to {end}{reason}"


@dataclass(frozen=True, slots=True)
class LaneMark:
    """A request, a message, a checkpoint or a failure."""

    at_s: float
    kind: str
    text: str = ""
    """Safe to show."""
    seq: int = 0
    """The number of its event, or 0 if unknown."""

    @property
    def is_failure(self) -> bool:
        return self.kind in FAILED_MARKS

    @property
    def sign(self) -> str:
        return MARKS[self.kind]

    def words(self, now_s: float) -> str:
        """`message at 15:10:02: Child builder got message 1`."""
        return f"{self.kind} at {_time(self.at_s, now_s)}{f': {self.text}' if self.text else ''}"


@dataclass(frozen=True, slots=True)
class Lane:
    """A session in the timeline."""

    session_id: str
    label: str
    """Safe to show."""
    branch: str
    spawned_by: str
    """The label of its parent, or empty if the parent is the operator."""
    spans: Sequence[LaneSpan]
    marks: Sequence[LaneMark] = ()
    depth: int = 0

    def cells(self, since_s: float, until_s: float, columns: int) -> list[str | None]:
        """The status in each of `columns` equal parts of the time, or None where the session did not exist."""
        found: list[str | None] = [None] * columns
        for part, (first, last) in self.span_cells(since_s, until_s, columns):
            for place in range(first, last + 1):
                before = found[place]
                if before is None or weight_of(part.status) >= weight_of(before):
                    found[place] = part.status
        return found

    def span_cells(
        self, since_s: float, until_s: float, columns: int
    ) -> list[tuple[LaneSpan, tuple[int, int]]]:
        """Each span with the first and the last one of `columns` equal parts of the time that it is in."""
        each_s = max(1e-9, (until_s - since_s) / max(1, columns))
        return [
            (
                part,
                (
                    max(0, min(columns - 1, int((part.start_s - since_s) / each_s))),
                    max(0, min(columns - 1, int((min(part.end_s, until_s) - since_s) / each_s))),
                ),
            )
            for part in self.spans
        ]

    def mark_cells(self, since_s: float, until_s: float, columns: int) -> list[tuple[LaneMark, int]]:
        """Each mark with the one of `columns` equal parts of the time that it is in."""
        each_s = max(1e-9, (until_s - since_s) / max(1, columns))
        places = ((mark, int((mark.at_s - since_s) / each_s)) for mark in self.marks)
        return [(mark, min(columns - 1, place)) for mark, place in places if 0 <= place <= columns]

    def totals(self) -> dict[str, float]:
        """The seconds in each status, by its word."""
        found = dict[str, float]()
        for part in self.spans:
            found[part.word] = found.get(part.word, 0.0) + max(0.0, part.end_s - part.start_s)
        return found


def weight_of(status: str) -> int:
    """How much a status has to be seen."""
    return next((weight for known, weight in _WEIGHTS.items() if known == status), 1)


def _time(at_s: float, now_s: float) -> str:
    return clock(iso(at_s), utc(now_s), seconds=True)


def lanes(timeline: "Json", events: Iterable[Mapping[str, object]] = ()) -> list[Lane]:
    """The sessions, each parent before its children. `events`: of `/v1/events`, for the marks."""
    since_s, until_s = epoch_s(timeline["since"]), epoch_s(timeline["until"])
    marks: dict[str, list[LaneMark]] = {}
    for event in events:
        if (kind := str(event["type"])) in MARKS:
            text, seq = shown(event.get("message") or "", 200), int(str(event.get("seq", 0)))
            mark = LaneMark(epoch_s(str(event["timestamp"])), kind, text, seq)
            marks.setdefault(str(event["session_id"]), []).append(mark)
    labels = {lane["session_id"]: shown(lane["label"], 150) for lane in timeline["sessions"]}
    found = list[Lane]()
    trees = Forest(
        timeline["sessions"], lambda lane: lane["session_id"], lambda lane: lane["parent_session_id"]
    )
    for lane, branch, depth, *_ in trees.lines():
        spans = [
            LaneSpan(
                part["status"],
                max(since_s, epoch_s(part["start"])),
                until_s if part["end"] is None else epoch_s(part["end"]),
                shown(part["reason"] or "", 200),
            )
            for part in lane["spans"]
        ]
        session_id, above = lane["session_id"], labels.get(lane["parent_session_id"], "")
        own = marks.get(session_id, ())
        found.append(Lane(session_id, labels[session_id], branch, above, spans, own, depth))
    return found
