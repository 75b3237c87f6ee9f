"""Draws spend and timeline of `sm top` as lines of text. Pure."""

from collections.abc import Mapping, Sequence

from rich.style import Style
from rich.text import Text

from sm.board.details import utc
from sm.board.lane_summary import LaneSummary
from sm.board.lanes import Lane, weight_of
from sm.board.spend import SpendBar
from sm.board.words import sign_of
from sm.cli.tui.cells import fitted
from sm.cli.tui.spots import Spot, Spots
from sm.core.figures import dollars, token_count
from sm.core.lines import clock
from sm.core.session_lines import COLOURS
from sm.core.statuses import ENDED, Status
from sm.core.timestamps import iso, span

_NUMBERS = 20
_LABEL_MIN, _LABEL_MAX = 12, 40
_COLOURS: Mapping[str, str] = {**COLOURS, Status.IDLE: "cyan", Status.COMPLETED: "blue"}
_FILLED = {Status.RUNNING: "█", Status.IDLE: "▒", Status.WAITING_INPUT: "▓"}
_OWN, _BELOW = "█", "░"
_FAILURES_MAX = 4
_SECONDS_BELOW_S = 600
"""A shorter time has an axis with seconds."""
_MARK_WEIGHT = 10
"""The pointer finds a mark before the span below it."""


def spend_lines(bars: Sequence[SpendBar], width: int, *, nested: bool = False) -> list[Text | str]:
    """A line for each entry: its label, its numbers, and a bar. With `nested`, a bar is own and descendants' cost."""
    if not bars:
        return [
            "no usage yet: an agent reports tokens with its first answer, and a plain command reports none"
        ]
    label_width = _label_width(width)
    room = max(0, width - label_width - _NUMBERS)
    lines: list[Text | str] = []
    if nested:
        lines.append(f"{_OWN} of the session itself   {_BELOW} of its descendants")
    for bar in bars:
        text = Text(no_wrap=True)
        text.append(fitted(f"{bar.branch}{bar.label}", label_width))
        text.append(f"{dollars(bar.cost):>10} {token_count(bar.tokens, narrow=True):>7}  ", Style(dim=True))
        filled = min(room, round(bar.share * room))
        own = min(filled, round(bar.own * room))
        text.append(_OWN * own, Style(color="green"))
        text.append(_BELOW * (filled - own), Style(color="green"))
        lines.append(text)
    return lines


def lane_lines(lanes: Sequence[Lane], since_s: float, until_s: float, width: int) -> list[Text | str]:
    """A lane for each session: one cell for each part of the time, with its status as colour and as fill."""
    if not lanes:
        return ["no session was alive in this time"]
    label_width, columns = _lane_widths(width)
    axis = " " * (label_width + 1) + _axis(since_s, until_s, columns)
    lines: list[Text | str] = [Text(axis[:width], no_wrap=True)]
    for lane in lanes:
        text = Text(fitted(f"{lane.branch}{lane.label}", label_width) + " ", no_wrap=True)
        marks = {place: mark.sign for mark, place in lane.mark_cells(since_s, until_s, columns)}
        cells = lane.cells(since_s, until_s, columns)
        for place, status in enumerate(cells):
            is_over = status in ENDED and place > 0 and cells[place - 1] == status
            sign = " " if status is None or is_over else _fill(status)
            colour = None if status is None else _COLOURS.get(status)
            text.append(marks.get(place, sign), Style(color=None if colour == "dim" else colour))
        lines.append(text)
    return [*lines, "", _LEGEND]


def summary_lines(
    summary: LaneSummary, failures: Sequence[tuple[float, str, str]], until_s: float, width: int
) -> list[str | Text]:
    """The waits, and the latest failures with their times, each in one line. `failures`: time, label and reason."""
    longest = f" ({summary.longest_label})" if summary.longest_label else ""
    lines = [Text(fitted(f"{summary.waiting_words}{longest}", width))]
    hidden = len(failures) - _FAILURES_MAX
    more = f", the latest {_FAILURES_MAX}:" if hidden > 0 else ":" if failures else ""
    lines.append(Text(fitted(f"{summary.failure_words}{more}", width), "bold" if failures else ""))
    for at_s, label, reason in failures[-_FAILURES_MAX:]:
        words = f"  ✗ {clock(iso(at_s), utc(until_s))} {label}"
        line = Text(fitted(f"{words}  {reason}", width))
        line.stylize(Style(color="red", bold=True), 0, len(words))
        lines.append(line)
    return [*lines, Text("")]


def cut_line(types: Sequence[str], width: int) -> Text:
    """The types of marks of which there are more than one picture shows."""
    return Text(fitted(f"not all marks are shown: there are too many ({', '.join(types)})", width))


def lane_spots(lanes: Sequence[Lane], since_s: float, until_s: float, width: int) -> Spots:
    """The spans and marks of the lines that `lane_lines` draws, in the order of their times."""
    label_width, columns = _lane_widths(width)
    left = label_width + 1
    found = dict[int, Sequence[Spot]]()
    for number, lane in enumerate(lanes, 1):  # the first line is the axis
        spots = list[tuple[float, Spot]]()
        for part, (first, last) in lane.span_cells(since_s, until_s, columns):
            words = f"{lane.label}: {part.words(until_s)}"
            spots.append((part.start_s, Spot(left + first, left + last, words, weight_of(part.status))))
        for mark, place in lane.mark_cells(since_s, until_s, columns):
            words = f"{lane.label}: {mark.words(until_s)}"
            spots.append((mark.at_s, Spot(left + place, left + place, words, _MARK_WEIGHT)))
        found[number] = [spot for _, spot in sorted(spots, key=lambda entry: entry[0])]
    return found


def _axis(since_s: float, until_s: float, columns: int) -> str:
    """The times at the begin and at the end, and at the quarters between them if there is room."""
    length_s, now = until_s - since_s, utc(until_s)
    is_short = length_s < _SECONDS_BELOW_S
    times = [clock(iso(since_s + length_s * part / 4), now, seconds=is_short) for part in range(5)]
    line = times[0]
    for part, text in enumerate(times[1:4], 1):
        place = columns * part // 4
        has_room = len(line) + 2 <= place and place + len(text) + 2 <= columns - len(times[4])
        if has_room and text not in (times[part - 1], times[4]):
            line = f"{line.ljust(place)}{text}"
    return line + times[4].rjust(max(0, columns - len(line)))


def _lane_widths(width: int) -> tuple[int, int]:
    """The cells of the label and those of the time."""
    label_width = _label_width(width)
    return label_width, max(1, width - label_width - 1)


def _fill(status: str) -> str:
    return _FILLED.get(Status(status)) or sign_of(status, stale=False, waits=False) if _known(status) else "·"


def _known(status: str) -> bool:
    return status in list(Status)


_LEGEND = "█ running  ▒ idle  ▓ waiting  · starting  ✓ completed  ✗ error or killed  ? request  ✉ message  ◆ checkpoint"


def lane_table(lanes: Sequence[Lane], now_s: float) -> list[Text | str]:
    """The numbers of the timeline: for each session its parent, and the time in each status."""
    lines: list[Text | str] = []
    for lane in lanes:
        times = ", ".join(f"{word} {span(seconds)}" for word, seconds in lane.totals().items())
        by = f" (spawned by {lane.spawned_by})" if lane.spawned_by else ""
        lines.append(f"{lane.branch}{lane.label}{by}: {times}")
        lines += [f"    {part.words(now_s)}" for part in lane.spans]
        lines += [f"    {mark.words(now_s)}" for mark in lane.marks]
    return lines or ["no session was alive in this time"]


def _label_width(width: int) -> int:
    return max(_LABEL_MIN, min(_LABEL_MAX, width // 3))
