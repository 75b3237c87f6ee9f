"""Draws rows of `sm top` as cells of a given width. Pure."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style

from sm.board import BoardNeed, Line, NeedKind
from sm.board.words import context_bar, shown, sign_of
from sm.core.dataclass import dataclass
from sm.core.figures import dollars
from sm.core.session_lines import COLOURS
from sm.core.statuses import Status
from sm.core.timestamps import span

_COLOURS: Mapping[str, str] = {**COLOURS, Status.IDLE: "cyan", Status.COMPLETED: ""}
"""Ended sessions are dim as a whole line."""
_PLAIN, _DIM, _BOLD = Style(), Style(dim=True), Style(bold=True)
_CURSOR, _MARKED = Style(reverse=True), Style(underline=True)
_STATUS_WIDTH, _NAME_MIN, _NAME_MAX, _TASK_FROM, _INDENT_MAX = 15, 12, 36, 60, 12
_FIXED_WIDTH = 3
"""The sign with its blank, and the blank after the name."""
_OPTIONAL = (("cost", 14, 74), ("context", 10, 94), ("done", 6, 104), ("tokens", 7, 112), ("model", 12, 124))
"""Columns with their width, from the width of the list on at which they are shown."""

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

    name: int
    optional: Sequence[tuple[str, int]]
    task: int


@lru_cache(maxsize=8)
def _widths(width: int) -> Widths:
    optional = [(name, size) for name, size, least in _OPTIONAL if width >= least]
    left = width - sum(size for _, size in optional) - _STATUS_WIDTH - _FIXED_WIDTH
    if width < _TASK_FROM:
        return Widths(max(_NAME_MIN, left), optional, 0)
    name = max(_NAME_MIN, min(_NAME_MAX, left * 11 // 20))
    return Widths(name, optional, max(0, left - name))


def session_header(width: int) -> str:
    widths = _widths(width)
    titles = [(name.upper(), size) for name, size in widths.optional]
    cells = [("", 2), ("NAME", widths.name + 1), ("STATUS", _STATUS_WIDTH), *titles, ("TASK", widths.task)]
    return fitted("".join(fitted(title, size) for title, size in cells), width)


def session_cells(line: Line, width: int, now_s: float, *, state: str, fresh: bool) -> Cells:
    """One line of the list. `state`: `cursor`, `marked` (the selection of the other region) or empty."""
    row, data, widths = line.row, line.row.data, _widths(width)
    colour = _colour("yellow" if row.requests else _COLOURS.get(row.status) or None)
    fold = f"▸{line.folded} " if line.folded else ""
    badges = "".join(f" {badge}" for badge in row.badges())
    # The members of a tree have one workspace.
    workspace = f" @{shown(row.workspace, 20)}" if row.workspace and not line.depth else ""
    held = f" ✉{data['messages_held']}" if data["messages_held"] else ""
    branch = line.branch if len(line.branch) <= _INDENT_MAX else f"…{line.branch[-_INDENT_MAX + 1 :]}"
    tree_cost = row.tree_cost()
    texts = {
        "cost": f"{dollars(data['cost_usd'])}{tree_cost and f' ∑{tree_cost}'}",
        "context": context_bar(data["context_percent"]),
        "done": row.progress(),
        "tokens": row.tokens(),
        "model": row.model(),
    }
    cells = [
        (f"{sign_of(row.status, stale=row.stale, waits=bool(row.requests))} ", colour),
        (
            fitted(f"{branch}{fold}{row.label}{badges}{workspace}{held}", widths.name) + " ",
            _BOLD if row.requests else _PLAIN,
        ),
        (fitted("gone" if line.gone else row.status_text(now_s), _STATUS_WIDTH), colour),
        *((fitted(texts[name], size - 1) + " ", _DIM) for name, size in widths.optional),
        (fitted(row.task(), widths.task), _PLAIN),
    ]
    return _stated(cells, width, state, dim=line.gone or not fresh or row.is_over)


def need_cells(need: BoardNeed, width: int, now_s: float, *, state: str, fresh: bool) -> Cells:
    age = span(max(0.0, now_s - need.since_s)) if need.since_s else ""
    name = {NeedKind.REQUEST: need.key, NeedKind.MESSAGE: need.key}.get(need.kind, need.kind.value)
    waits = need.kind is NeedKind.REQUEST or need.message_id is not None
    colour = _colour("yellow" if waits else "green" if need.kind is NeedKind.DONE else "red")
    label_width = _label_width(width)
    cells = [
        (fitted(name, _key_width(width)) + " ", colour + _BOLD),
        (fitted(age, 5) + " ", _PLAIN),
        (fitted(need.label, label_width) + " ", _BOLD),
    ]
    left = width - sum(cell_len(text) for text, _ in cells)
    cells.append((fitted(need.text, max(0, left)), _PLAIN))
    return _stated(cells, width, state, dim=not fresh)


def quiet_cells(text: str, width: int) -> Cells:
    """A line that cannot be selected."""
    return ((fitted(text, width), _DIM),)


def need_text_width(width: int) -> int:
    """The cells for the text in a line of `width`."""
    return width - _key_width(width) - _label_width(width) - 8


def _key_width(width: int) -> int:
    return 12 if width >= 60 else 6


def _label_width(width: int) -> int:
    return max(10, min(30, width // 4))


def _stated(cells: Sequence[tuple[str, Style]], width: int, state: str, *, dim: bool) -> Cells:
    text = "".join(text for text, _ in cells)
    if state == "cursor":
        return ((set_cell_size(text, width), _CURSOR),)
    extra = (_MARKED if state == "marked" else _PLAIN) + (_DIM if dim else _PLAIN)
    kept, left = list[tuple[str, Style]](), width
    for text, style in cells:
        part = text if cell_len(text) <= left else set_cell_size(text, left)
        left -= cell_len(part)
        kept.append((part, style + extra))
    return tuple(kept)
