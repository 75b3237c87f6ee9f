"""Writes a command's output to stdout as lines, JSON or a table."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import click

from sm.core.columns import columns
from sm.core.lines import json_text


class Table(NamedTuple):
    """Rows of cells. The last cell of a row is free text."""

    rows: Sequence[tuple[str, ...]]
    aligned: int
    """The number of columns, from the left, that plain text aligns."""
    empty: str = ""
    """The message on stderr for a table without rows."""
    colours: Mapping[tuple[int, int], str] = {}
    """The colour of a cell, by row and column."""
    is_cut: bool = True
    """On a terminal: True cuts the text of a row to one line, False wraps it."""


def table_lines(table: Table, separator: str = " | ") -> list[str]:
    """Format a table as plain text, one line for each row, without empty cells at the end."""
    widths = [max((columns(row[n]) for row in table.rows), default=0) for n in range(table.aligned)]
    lines = []
    for row in table.rows:
        cells = [cell + " " * (width - columns(cell)) for cell, width in zip(row, widths, strict=False)]
        rest = list(row[table.aligned :])
        while rest and not rest[-1]:
            rest.pop()
        lines.append(separator.join([*cells, *rest]).rstrip(" "))
    return lines


def print_table(table: Table) -> None:
    if not table.rows:
        click.echo(table.empty, err=True)
    elif sys.stdout.isatty():
        from sm.cli.display.terminal import print_grid

        print_grid(table.rows, table.colours, lambda: table_lines(table), is_cut=table.is_cut)
    else:
        print_lines(table_lines(table))


def print_lines(lines: Iterable[str]) -> None:
    text = "\n".join(lines)
    if text:
        click.echo(text)


def print_json(document: str) -> None:
    click.echo(json_text(document))


def now() -> datetime:
    return datetime.now(UTC)


def width() -> int | None:
    """Return the width of the terminal in columns; None when stdout is not a terminal."""
    return os.get_terminal_size(1).columns or None if sys.stdout.isatty() else None
