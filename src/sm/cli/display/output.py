"""Writes a command's output to stdout as lines, JSON or a table."""

import os
import sys
from collections.abc import Iterable
from datetime import UTC, datetime

import click

from sm.cli.display.text_table import Table, table_lines
from sm.core.lines import json_text


def print_table(table: Table) -> None:
    if not table.rows:
        click.echo(table.empty, err=True)
    if sys.stdout.isatty() and (table.rows or table.first or table.last):
        from sm.cli.display.terminal import print_grid

        print_grid(table)
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
