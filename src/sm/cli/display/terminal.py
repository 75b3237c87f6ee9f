"""Prints tables and live lines on a terminal with rich, which takes longer to import than most commands to run."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise

import click
from rich.box import Box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table as Grid
from rich.text import Text

from sm.cli.display.text_table import Table, fit, table_lines
from sm.core.columns import cut

_BARS = Box("  | \n" * 8, ascii=True)


def print_grid(table: Table) -> None:
    """Print a table within the width of the terminal, or its lines if the terminal is too narrow."""
    console = _console()
    if table.rows and fit(table, console.width) is None:
        for line in table_lines(table):
            click.echo(cut(line, console.width) if table.is_cut else line)
    else:
        console.print(_drawn(table, console.width))


@contextmanager
def live_display() -> Iterator[Callable[[Table | Iterable[str]], None]]:
    """Yield a function that replaces the table or the lines that it printed before. Each line is cut to the width."""
    with Live(console=_console(), auto_refresh=False) as live:

        def show(shown: Table | Iterable[str]) -> None:
            width = live.console.width = _width()  # a person may have resized the terminal
            if isinstance(shown, Table):
                live.update(_drawn(shown, width), refresh=True)
            else:
                live.update(Text("\n".join(cut(line, width) for line in shown)), refresh=True)

        yield show


def _drawn(table: Table, width: int) -> Group:
    parts: list[Grid | Text] = [Text(line, overflow="fold") for line in table.first]
    below = [Text(line, overflow="fold") for line in table.last]
    if not table.rows:
        return Group(*parts, *below) if parts or below else Group(Text(table.empty))
    widths = fit(table, width) or {}
    for begin, end in pairwise([0, *table.headings, len(table.rows)]):
        if begin in table.headings:
            parts += [Text(), Text(table.headings[begin], "bold")]
        parts.append(_grid(table, widths, range(begin, end)))
    return Group(*parts, *([Text(), *below] if below else []))


def _grid(table: Table, widths: Mapping[int, int], rows: range) -> Grid:
    has_bars = bool(table.separator.strip())
    grid = Grid(
        box=_BARS if has_bars else None,
        padding=(0, 1) if has_bars else (0, len(table.separator), 0, 0),
        show_header=False,
        show_edge=False,
        pad_edge=False,
    )
    *fixed, last = widths.values()
    for size in fixed:
        grid.add_column(width=size, overflow="fold")
    grid.add_column(width=last, no_wrap=table.is_cut, overflow="ellipsis" if table.is_cut else "fold")
    for number in rows:
        row = table.rows[number]
        grid.add_row(*(Text(row[n], table.colours.get((number, n), "")) for n in widths if n < len(row)))
    return grid


def _console() -> Console:
    # Without an explicit width, rich would prefer COLUMNS to the real width. rich reads NO_COLOR and TERM itself.
    return Console(width=_width(), markup=False, emoji=False, highlight=False)


def _width() -> int:
    return os.get_terminal_size(sys.stdout.fileno()).columns or 80
