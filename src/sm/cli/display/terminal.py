"""Prints tables and live lines on a terminal with rich, which takes longer to import than most commands to run."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import click
from rich.box import Box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table as Grid
from rich.text import Text

from sm.cli.display.listing import GAP, STATUS_COLUMN, FittedListing, Listing, fit
from sm.core.columns import columns, cut
from sm.core.session_lines import COLOURS

_BARS = Box("  | \n" * 8, ascii=True)
_GAP = 3
"""The width of a bar with its blanks."""
_NAME_MIN = 20
_TEXT_MIN = 16


def print_grid(
    rows: Sequence[Sequence[str]],
    colours: Mapping[tuple[int, int], str],
    plain: Callable[[], Iterable[str]],
    *,
    is_cut: bool,
) -> None:
    """Print a table, with the members of `output.Table`, within the width of the terminal.

    The text of a row shrinks first. Then its first cell is wrapped: it names the row, so it is never cut. A terminal
    that is too narrow for that gets the lines of `plain`.
    """
    console = _console()
    widths = _widths(rows, console.width)
    if widths is None:
        for line in plain():
            click.echo(cut(line, console.width) if is_cut else line)
        return
    grid = Grid(box=_BARS, show_header=False, show_edge=False, pad_edge=False)
    for width in widths[:-1]:
        grid.add_column(width=width, overflow="fold")
    grid.add_column(width=widths[-1], no_wrap=is_cut, overflow="ellipsis" if is_cut else "fold")
    for number, row in enumerate(rows):
        cells = enumerate(row[: len(widths)])
        grid.add_row(*(Text(cell, colours.get((number, column), "")) for column, cell in cells))
    console.print(grid)


@contextmanager
def live_lines() -> Iterator[Callable[[Iterable[str]], None]]:
    """Yield a function that replaces the lines that it printed before. Each line is cut to the width."""
    with Live(console=_console(), auto_refresh=False) as live:

        def show(lines: Iterable[str]) -> None:
            live.console.width = _width()  # a person may have resized the terminal
            live.update(Text("\n".join(cut(line, live.console.width) for line in lines)), refresh=True)

        yield show


def print_listing(listing: Listing) -> None:
    console = _console()
    console.print(_listing(listing, console.width))


@contextmanager
def live_listing() -> Iterator[Callable[[Listing], None]]:
    """Yield a function that replaces the listing that it printed before."""
    with Live(console=_console(), auto_refresh=False) as live:

        def show(listing: Listing) -> None:
            live.console.width = _width()  # a person may have resized the terminal
            live.update(_listing(listing, live.console.width), refresh=True)

        yield show


def _listing(listing: Listing, width: int) -> Group:
    ends = [[Text(line, overflow="fold") for line in lines] for lines in (listing.first, listing.last)]
    if not listing.groups:
        return Group(*ends[0], *ends[1]) if any(ends) else Group(Text(listing.empty))
    shown = fit(listing, width)
    parts: list[Grid | Text] = [*ends[0], _rows(shown, [shown.header], "bold")]
    for heading, rows in shown.groups:
        parts += [Text(), Text(heading, "bold"), _rows(shown, rows)]
    return Group(*parts, *(Text(),) * bool(ends[1]), *ends[1])


def _rows(shown: FittedListing, rows: Sequence[Sequence[str]], style: str = "") -> Grid:
    grid = Grid.grid(padding=(0, GAP, 0, 0))
    *fixed, last = shown.widths
    for width in fixed:
        grid.add_column(width=width, overflow="fold")
    grid.add_column(width=last, no_wrap=True, overflow="ellipsis")
    for row in rows:
        grid.add_row(*(Text(cell, style or _colour(cell, n)) for n, cell in enumerate(row)))
    return grid


def _colour(cell: str, column: int) -> str:
    return COLOURS.get(cell.partition("?")[0], "") if column == STATUS_COLUMN else ""


def _console() -> Console:
    # Without an explicit width, rich would prefer COLUMNS to the real width. rich reads NO_COLOR and TERM itself.
    return Console(width=_width(), markup=False, emoji=False, highlight=False)


def _width() -> int:
    return os.get_terminal_size(sys.stdout.fileno()).columns or 80


def _widths(rows: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """Choose the width of each column; None when the terminal is too narrow. Omits a text column without text."""
    count = max(map(len, rows))
    widths = [max(columns(row[n]) for row in rows if n < len(row)) for n in range(count)]
    if not widths[-1]:
        widths.pop()
    name, *facts = widths
    text = facts.pop() if len(widths) == count else 0
    left = width - sum(facts) - _GAP * (len(widths) - 1)
    if name + text > left:
        name = min(name, max(_NAME_MIN, left - min(text, _TEXT_MIN)))
        text = min(text, left - name)
    if name > left or (text < _TEXT_MIN and len(widths) == count and text < widths[-1]):
        return None
    return [name, *facts, text] if len(widths) == count else [name, *facts]
