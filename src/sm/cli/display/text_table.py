"""Tables of every command: as plain text, and the widths of their columns on a terminal. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sm.core.columns import columns

_NAME_MIN = 20
"""A narrow terminal leaves the first column so many columns, if it can."""


class Table(NamedTuple):
    """Rows of cells. The first cell names its row, and the last one is free text."""

    rows: Sequence[tuple[str, ...]]
    aligned: int
    """The number of columns, from the left, that plain text aligns."""
    empty: str = ""
    """The message on stderr for a table without rows."""
    colours: Mapping[tuple[int, int], str] = {}
    """The colour of a cell, by row and column."""
    is_cut: bool = True
    """On a terminal: True cuts the text of a row to one line, False wraps it."""
    separator: str = " | "
    text_min: int = 16
    """The room of the text before other columns give way."""
    optional: Sequence[int] = ()
    """The columns that a narrow terminal omits, in this order."""
    headings: Mapping[int, str] = {}
    """On a terminal: the line above a row, by the number of that row."""
    first: Sequence[str] = ()
    """Lines above the table."""
    last: Sequence[str] = ()
    """Lines below the table."""


def table_lines(table: Table) -> list[str]:
    """Format a table as plain text, one line for each row, without empty cells at the end."""
    widths = [max((columns(row[n]) for row in table.rows), default=0) for n in range(table.aligned)]
    lines = []
    for row in table.rows:
        cells = [cell + " " * (width - columns(cell)) for cell, width in zip(row, widths, strict=False)]
        rest = list(row[table.aligned :])
        while rest and not rest[-1]:
            rest.pop()
        lines.append(table.separator.join([*cells, *rest]).rstrip(" "))
    return [*table.first, *lines, *table.last]


def fit(table: Table, width: int) -> dict[int, int] | None:
    """The width of each column that a terminal of `width` shows; None if it is too narrow for a table.

    Optional columns are omitted until the text has room. Then the text shrinks, and at last the name, which is wrapped
    and never cut. A text column without text is left out.
    """
    last = max(map(len, table.rows)) - 1
    widths = {n: max(columns(row[n]) for row in table.rows if n < len(row)) for n in range(last + 1)}
    name, text = widths[0], widths[last]
    if not text:
        del widths[last]
    wanted = min(text, table.text_min)

    def room() -> int:
        facts = sum(size for n, size in widths.items() if n not in (0, last))
        return width - facts - len(table.separator) * (len(widths) - 1)

    for n in table.optional:
        if room() < name + wanted:
            del widths[n]
    left = room()
    name = min(name, max(_NAME_MIN, left - wanted))
    shown = min(text, left - name)
    if not table.optional and shown < wanted:
        return None
    return widths | {0: name} | ({last: max(1, shown)} if text else {})
