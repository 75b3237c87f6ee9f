"""The tabs of the timeline in `sm top`: the lanes of three lengths of time, and their numbers as a table."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sm.board import BoardRow
from sm.board.lane_summary import summary_of
from sm.board.lanes import FAILED_MARKS, MARKS, Lane, lanes
from sm.cli.tui import pictures
from sm.cli.tui.pages import PageLines, PageTab
from sm.cli.tui.spots import Spots
from sm.client import live_stream
from sm.client.http import Client
from sm.core.dataclass import dataclass
from sm.core.timestamps import epoch_s, iso

_HOUR_S = 3600.0
_LENGTHS = (
    ("Last hour", "Timeline of the last hour", _HOUR_S, 1.0),
    ("Last 24 h", "Timeline of the last 24 hours", 24 * _HOUR_S, 10.0),
    ("Last 7 d", "Timeline of the last 7 days", 7 * 24 * _HOUR_S, 60.0),
)
"""For each tab its title, its heading, its length, and the seconds between two readings."""
FIRST_TAB = 1
"""A person who comes back after a night wants to see the night."""
_MARKS_MAX = 2000
"""Events of one type."""


@dataclass(frozen=True, slots=True)
class TimelineAnswer:
    lanes: Sequence[Lane]
    since_s: float
    """The begin of the picture: nothing was alive before."""
    until_s: float
    cut: Sequence[str]
    """The types of which only the first marks were read."""


class TimelineTabs:
    """`now_s`: returns the daemon's time; `row`: returns the row of a session, or None."""

    def __init__(
        self,
        client: Client,
        workspace: str | None,
        now_s: Callable[[], float],
        row: Callable[[str], BoardRow | None],
    ) -> None:
        self._client = client
        self._workspace = workspace
        self._now_s = now_s
        self._row = row
        self._length_s = _LENGTHS[FIRST_TAB][2]
        """Of the lanes that were shown last, which the table is about."""

    def tabs(self) -> Sequence[PageTab]:
        found = [
            PageTab(
                title,
                (),
                self._picture,
                partial(self._read, length_s),
                heading=heading,
                spots=self._spots,
                every_s=every_s,
            )
            for title, heading, length_s, every_s in _LENGTHS
        ]
        table = PageTab(
            "Table", (), self._table, lambda: self._read(self._length_s), heading="Timeline", every_s=10.0
        )
        return [*found, table]

    def _read(self, length_s: float) -> TimelineAnswer:
        self._length_s = length_s
        since = iso(self._now_s() - length_s)
        found = live_stream.timeline(self._client, since=since, workspace=self._workspace)
        query = {"since_time": found["since"], "limit": _MARKS_MAX, "workspace": self._workspace}
        events, cut = list[Any](), list[str]()
        for kind in MARKS:
            read = self._client.get("/v1/events", {**query, "type": kind})["events"]
            events += read
            cut += [kind] if len(read) >= _MARKS_MAX else []
        shown, until_s = lanes(found, events), epoch_s(found["until"])
        since_s = min((part.start_s for lane in shown for part in lane.spans), default=until_s)
        return TimelineAnswer(shown, since_s, until_s, cut)

    def _picture(self, answer: TimelineAnswer, width: int) -> PageLines:
        return [
            *self._summary(answer, width),
            *pictures.lane_lines(answer.lanes, answer.since_s, answer.until_s, width),
        ]

    def _spots(self, answer: TimelineAnswer, width: int) -> Spots:
        above = len(self._summary(answer, width))
        spots = pictures.lane_spots(answer.lanes, answer.since_s, answer.until_s, width)
        return {above + number: found for number, found in spots.items()}

    def _table(self, answer: TimelineAnswer, width: int) -> PageLines:
        heading = next(heading for _, heading, length_s, _ in _LENGTHS if length_s == self._length_s)
        return [heading, "", *pictures.lane_table(answer.lanes, answer.until_s)]

    def _summary(self, answer: TimelineAnswer, width: int) -> PageLines:
        """The failures and the waits, each in one line."""
        summary = summary_of(answer.lanes)
        failures = [
            (mark.at_s, lane.label, self._failure_words(lane, mark.text)) for lane, mark in summary.failures
        ]
        lines = pictures.summary_lines(summary, failures, answer.until_s, width)
        if answer.cut:
            lines.append(pictures.cut_line(answer.cut, width))
        return lines

    def _failure_words(self, lane: Lane, text: str) -> str:
        """The reason, as the list has it, unless the session runs again."""
        row = self._row(lane.session_id)
        return row.task() if row is not None and row.status in FAILED_MARKS else text
