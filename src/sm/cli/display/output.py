"""Writes the answer of a command to stdout: lines, JSON, or a table."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import click

from sm.cli.display.text import columns, json_text


class Table(NamedTuple):
    """Rows of cells; the last cell of a row is its text, the others are facts."""

    rows: Sequence[tuple[str, ...]]
    aligned: int
    """How many columns, from the left, plain text aligns."""
    empty: str = ""
    """What stderr says in place of a table without rows."""
    colours: Mapping[tuple[int, int], str] = {}
    """The colour of a cell, by row and column."""
    is_cut: bool = True
    """Whether a terminal shows the text of a row on one line, cut; else it shows all of the text."""


def table_lines(table: Table, separator: str = " | ") -> list[str]:
    """The table as plain text, one line for each row. Empty cells at the end of a row are left out."""
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
        from sm.cli.display import terminal

        terminal.print_table(table)
    else:
        print_lines(table_lines(table))


def print_lines(lines: Iterable[str]) -> None:
    """Write the lines of an answer in one go."""
    text = "\n".join(lines)
    if text:
        click.echo(text)


def print_json(document: str) -> None:
    """Write one JSON document as it came from the daemon."""
    click.echo(json_text(document))


def now() -> datetime:
    return datetime.now(UTC)


def width() -> int | None:
    """The columns of the person's terminal; None when stdout is no terminal."""
    return os.get_terminal_size(1).columns or None if sys.stdout.isatty() else None
