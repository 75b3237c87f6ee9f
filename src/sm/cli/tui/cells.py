"""Draws rows of `sm top` as cells of a given width. Pure."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style

from sm.board import BoardNeed, BoardRow, Line, NeedKind
from sm.board.columns import COLUMN_TEXTS, Column
from sm.board.row import DONE, FAILED, WAITING
from sm.board.words import shown, sign_of
from sm.core.dataclass import dataclass
from sm.core.session_lines import COLOURS
from sm.core.statuses import Status
from sm.core.timestamps import span

_COLOURS: Mapping[str, str] = {**COLOURS, Status.IDLE: "cyan", Status.COMPLETED: ""}
"""Ended sessions that were seen are dim, except for their sign."""
_PLAIN, _DIM, _BOLD = Style(), Style(dim=True), Style(bold=True)
_FAILED = Style(color="red", bold=True)
_CURSOR, _MARKED = Style(reverse=True), Style(underline=True)
_STATUS_WIDTH, _NAME_MIN, _NAME_MAX, _TASK_FROM, _INDENT_MAX = 16, 12, 48, 60, 12
_AGE_WIDTH = 5
_FIXED_WIDTH = 3
"""The sign with its blank, and the blank after the name."""
_COST_ALONE, _SUMS_FROM = 9, 52
"""The width of the costs without sums of trees, which are shown if they leave so many cells for name and task."""
_OPTIONAL: Mapping[Column, tuple[int, int]] = {
    Column.COST: (14, 49),
    Column.CONTEXT: (11, 52),
    Column.DONE: (6, 56),
    Column.TOKENS: (7, 57),
    Column.MODEL: (12, 57),
}
"""The width of each column, and the cells that it has to leave for the name and the task."""

Cells = tuple[tuple[str, Style], ...]


@lru_cache
def _colour(name: str | None) -> Style:
    return Style(color=name)


def fitted(text: str, width: int) -> str:
    """`text` in exactly `width` cells."""
    if cell_len(text) > width:
        return set_cell_size(text, max(0, width - 1)) + "…" if width > 0 else ""
    return set_cell_size(text, width)


def segments(cells: Cells) -> list[Segment]:
    return [Segment(text, style) for text, style in cells]


@dataclass(frozen=True, slots=True)
class Widths:
    """The widths of the columns in a list of a given width, with 0 for a column that is left out."""

    line: int
    name: int
    optional: Sequence[tuple[Column, int]]
    task: int


@lru_cache(maxsize=64)
def widths_of(
    line: int,
    filled: frozenset[Column] = frozenset(Column),
    longest: int = _NAME_MAX,
    *,
    has_sums: bool = True,
) -> Widths:
    """Divide a line.

    `filled`: the columns with values; `longest`: the width of the longest name with its signs; `has_sums`: a cost may
    have the sum of its tree beside it.
    """
    left, optional = line - _STATUS_WIDTH - _FIXED_WIDTH, list[tuple[Column, int]]()
    for column, (most, kept) in _OPTIONAL.items():
        shows_sums = has_sums and left - most >= _SUMS_FROM
        width = _COST_ALONE if column is Column.COST and not shows_sums else most
        if column in filled and left - width >= kept:
            optional.append((column, width))
            left -= width
    if line < _TASK_FROM:
        return Widths(line, max(_NAME_MIN, left), optional, 0)
    name = max(_NAME_MIN, min(longest, _NAME_MAX, left * 11 // 20))
    return Widths(line, name, optional, max(0, left - name))


def session_header(widths: Widths) -> str:
    titles = [(column.upper(), size) for column, size in widths.optional]
    cells = [("", 2), ("NAME", widths.name + 1), ("STATUS", _STATUS_WIDTH), *titles, ("TASK", widths.task)]
    return fitted("".join(fitted(title, size) for title, size in cells), widths.line)


def name_text(line: Line, width: int | None = None) -> str:
    """The name of a session with its place in the tree and its marks.

    With a width, in cells, marks that find no room are left out, the last one first, so that the name stays whole.
    """
    row = line.row
    fold = f"▸{line.folded} " if line.folded else ""
    branch = line.branch if len(line.branch) <= _INDENT_MAX else f"…{line.branch[-_INDENT_MAX + 1 :]}"
    marks = row.badges()
    if held := row.data["messages_held"]:
        marks.append(f"✉{held}")
    if row.workspace and not line.depth:  # the members of a tree have one workspace
        marks.append(f"@{shown(row.workspace, 20)}")
    texts = [f"{branch}{fold}{row.label}", *marks]
    while width is not None and len(texts) > 1 and cell_len(" ".join(texts)) > width:
        texts.pop()
    return " ".join(texts)


def _column_text(row: BoardRow, column: Column, width: int) -> str:
    """The text of an optional column. A cost whose sum does not fit is shown without the sum."""
    text = COLUMN_TEXTS[column](row)
    is_alone = width == _COST_ALONE or cell_len(text) >= width
    return text.partition(" ")[0] if column is Column.COST and is_alone else text


def session_cells(line: Line, widths: Widths, now_s: float, *, state: str, fresh: bool) -> Cells:
    """One line of the list. `state`: `cursor`, `marked` (the selection of the other region) or empty."""
    row = line.row
    waits, failed = row.urgency == WAITING, row.urgency == FAILED
    colour = _FAILED if failed else _colour("yellow" if waits else _COLOURS.get(row.status) or None)
    name_style = _DIM if row.is_over else _FAILED if failed else _BOLD if waits else _PLAIN
    # Not both dim and coloured: on a light ground, nobody could read that.
    is_soft = row.is_over or row.urgency == DONE
    soft = _DIM if is_soft else _PLAIN
    cells = [
        (
            f"{sign_of(row.status, stale=row.stale, waits=bool(row.requests))} ",
            soft if colour.color is None else colour,
        ),
        (fitted(name_text(line, widths.name), widths.name) + " ", name_style),
        (
            fitted("gone" if line.gone else row.status_text(now_s), _STATUS_WIDTH),
            soft if is_soft else colour,
        ),
        *(
            (fitted(_column_text(row, column, size), size - 1) + " ", _DIM)
            for column, size in widths.optional
        ),
        (fitted(row.task(), widths.task), soft),
    ]
    return _stated(cells, widths.line, state, dim=line.gone or not fresh)


@dataclass(frozen=True, slots=True)
class NeedWidths:
    """The widths of the columns in a list of what needs the person."""

    line: int
    key: int
    label: int

    @property
    def text(self) -> int:
        return max(0, self.line - self.key - _AGE_WIDTH - self.label - 3)


def need_widths(line: int, found: Sequence[BoardNeed]) -> NeedWidths:
    """Divide a line: the text gets all that the longest key and the longest name leave of it."""
    key = max((len(_need_key(need)) for need in found), default=0)
    label = max((cell_len(need.label) for need in found), default=0)
    return NeedWidths(line, min(key, 12 if line >= 60 else 6), min(label, max(10, min(30, line // 4 + 4))))


def _need_key(need: BoardNeed) -> str:
    return {NeedKind.REQUEST: need.key, NeedKind.MESSAGE: need.key}.get(need.kind, need.kind.value)


def need_cells(need: BoardNeed, widths: NeedWidths, now_s: float, *, state: str, fresh: bool) -> Cells:
    age = span(max(0.0, now_s - need.since_s)) if need.since_s else ""
    waits = need.kind is NeedKind.REQUEST or need.message_id is not None
    loud = _FAILED if not waits else _colour("yellow") + _BOLD
    label = _FAILED if need.kind is NeedKind.FAILURE else _BOLD
    if not need.is_urgent:
        loud = label = _PLAIN
    cells = [
        (fitted(_need_key(need), widths.key) + " ", loud),
        (fitted(age, _AGE_WIDTH) + " ", _PLAIN),
        (fitted(need.label, widths.label) + " ", label),
        (fitted(need.text, widths.text), _PLAIN),
    ]
    return _stated(cells, widths.line, state, dim=not fresh or not need.is_urgent)


def quiet_cells(text: str, width: int) -> Cells:
    """A line that cannot be selected."""
    return ((fitted(text, width), _DIM),)


def _stated(cells: Sequence[tuple[str, Style]], width: int, state: str, *, dim: bool) -> Cells:
    """The cells of a line in its state. `dim`: all of them grey."""
    text = "".join(text for text, _ in cells)
    if state == "cursor":
        return ((set_cell_size(text, width), _CURSOR),)
    extra = _MARKED if state == "marked" else _PLAIN
    kept, left = list[tuple[str, Style]](), width
    for text, style in cells:
        part = text if cell_len(text) <= left else set_cell_size(text, left)
        left -= cell_len(part)
        kept.append((part, (_DIM if dim else style) + extra))
    return tuple(kept)
