"""The timeline of live views: when each session had which status, nested as the tree. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sm.board.words import shown, status_word
from sm.core.columns import BRANCHES
from sm.core.statuses import Status
from sm.core.timestamps import epoch_s

if TYPE_CHECKING:
    from sm.client.live import LaneData, TimelineData

_DEPTH_MAX = 20
_WEIGHTS = {Status.WAITING_INPUT: 3, Status.ERROR: 2, Status.KILLED: 2, Status.ABANDONED: 2}
"""The status that a cell shows if several fit into it."""
MARKS = {"request": "?", "message": "✉", "checkpoint": "◆"}
"""The events that a lane shows, by their type."""


@dataclass(frozen=True, slots=True)
class LaneSpan:
    status: str
    start_s: float
    end_s: float
    reason: str

    @property
    def word(self) -> str:
        return status_word(self.status, stale=False)


@dataclass(frozen=True, slots=True)
class Lane:
    """A session in the timeline."""

    session_id: str
    label: str
    """Safe to show."""
    branch: str
    spawned_by: str
    """The label of its parent; empty: the operator."""
    spans: Sequence[LaneSpan]
    marks: Sequence[tuple[float, str]] = ()
    """The times of requests, messages and checkpoints with their signs."""

    def cells(self, since_s: float, until_s: float, columns: int) -> list[str | None]:
        """The status in each of `columns` equal parts of the time; None: the session did not exist."""
        found: list[str | None] = [None] * columns
        each_s = max(1e-9, (until_s - since_s) / max(1, columns))
        for span in self.spans:
            first = max(0, int((span.start_s - since_s) / each_s))
            last = min(columns - 1, int((min(span.end_s, until_s) - since_s) / each_s))
            for place in range(first, last + 1):
                before = found[place]
                if before is None or _weight(span.status) >= _weight(before):
                    found[place] = span.status
        return found

    def mark_cells(self, since_s: float, until_s: float, columns: int) -> dict[int, str]:
        """The sign of the last mark in each part that has one."""
        each_s = max(1e-9, (until_s - since_s) / max(1, columns))
        places = ((int((at_s - since_s) / each_s), sign) for at_s, sign in self.marks)
        return {min(columns - 1, place): sign for place, sign in places if 0 <= place <= columns}

    def totals(self) -> dict[str, float]:
        """The seconds in each status, by its word."""
        found = dict[str, float]()
        for span in self.spans:
            found[span.word] = found.get(span.word, 0.0) + max(0.0, span.end_s - span.start_s)
        return found


def _weight(status: str) -> int:
    return next((weight for known, weight in _WEIGHTS.items() if known == status), 1)


def lanes(timeline: "TimelineData", events: Iterable[Mapping[str, object]] = ()) -> list[Lane]:
    """The sessions, each parent before its children. `events`: of `/v1/events`, for the marks."""
    since_s, until_s = epoch_s(timeline["since"]), epoch_s(timeline["until"])
    by_id = {lane["session_id"]: lane for lane in timeline["sessions"]}
    children: dict[str | None, list[LaneData]] = {}
    for lane in timeline["sessions"]:
        parent = lane["parent_session_id"]
        children.setdefault(parent if parent in by_id else None, []).append(lane)
    marks: dict[str, list[tuple[float, str]]] = {}
    for event in events:
        if (sign := MARKS.get(str(event["type"]))) is not None:
            marks.setdefault(str(event["session_id"]), []).append((epoch_s(str(event["timestamp"])), sign))
    found, seen = list[Lane](), set[str]()
    stack = [(lane, "", "", 0) for lane in reversed(children.get(None, ()))]
    while stack:
        lane, branch, indent, depth = stack.pop()
        session_id = lane["session_id"]
        if session_id in seen:
            continue
        seen.add(session_id)
        above = by_id.get(lane["parent_session_id"] or "")
        spans = [
            LaneSpan(
                span["status"],
                max(since_s, epoch_s(span["start"])),
                until_s if span["end"] is None else epoch_s(span["end"]),
                shown(span["reason"] or "", 200),
            )
            for span in lane["spans"]
        ]
        found.append(
            Lane(
                session_id,
                shown(lane["label"], 150),
                branch,
                shown(above["label"], 150) if above else "",
                spans,
                marks.get(session_id, ()),
            )
        )
        below = children.get(session_id, [])
        for child in reversed(below):
            corner, more = BRANCHES[child is below[-1]]
            deeper = indent if depth >= _DEPTH_MAX else indent + more
            stack.append((child, indent + corner, deeper, depth + 1))
    return found
