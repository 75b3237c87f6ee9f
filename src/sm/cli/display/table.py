"""Rows of cells, and their layout as plain text. `display.terminal` lays out the same rows on a terminal."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sm.cli.display.text import columns, padded

SEPARATOR = " | "


class Table(NamedTuple):
    """Rows of cells; the last cell of a row is its text, the others are facts."""

    rows: Sequence[tuple[str, ...]]
    aligned: int
    """How many columns, from the left, plain text aligns."""
    colours: Mapping[tuple[int, int], str] = {}
    """The colour of a cell, by row and column."""
    is_cut: bool = True
    """Whether a terminal shows the text of a row on one line, cut; else it shows all of the text."""


def table_lines(table: Table, separator: str = SEPARATOR) -> list[str]:
    """The table as plain text, one line for each row. Empty cells at the end of a row are left out."""
    widths = [max((columns(row[n]) for row in table.rows), default=0) for n in range(table.aligned)]
    lines = []
    for row in table.rows:
        cells = [padded(cell, width) for cell, width in zip(row, widths, strict=False)]
        rest = list(row[table.aligned :])
        while rest and not rest[-1]:
            rest.pop()
        lines.append(separator.join([*cells, *rest]).rstrip(" "))
    return lines
