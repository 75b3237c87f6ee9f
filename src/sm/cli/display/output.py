"""Writes the answer of a command to stdout."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import click

from sm.cli.display.sessions import session_table
from sm.cli.display.table import Table, table_lines
from sm.cli.display.text import json_text
from sm.wire import decode


def now() -> datetime:
    return datetime.now(UTC)


def print_lines(lines: Iterable[str]) -> None:
    """Write the lines of an answer in one go."""
    text = "\n".join(lines)
    if text:
        click.echo(text)


def print_json(document: str) -> None:
    """Write one JSON document as it came from the daemon."""
    click.echo(json_text(document))


def print_answer(document: str, layout: Callable[[Any], Iterable[str]], *, as_json: bool) -> None:
    """Write the daemon's answer as JSON, or as the lines that `layout` makes of it."""
    if as_json:
        print_json(document)
    else:
        print_lines(layout(decode(document)))


def width() -> int | None:
    """The columns of the person's terminal; None when stdout is no terminal."""
    return os.get_terminal_size(1).columns or None if sys.stdout.isatty() else None


def print_table(table: Table, empty: str) -> None:
    """Write a table; when it has no rows, say `empty` on stderr."""
    if not table.rows:
        click.echo(empty, err=True)
    elif sys.stdout.isatty():
        from sm.cli.display import terminal

        terminal.print_table(table)
    else:
        print_lines(table_lines(table))


def print_sessions(
    rows: Iterable[tuple[str, Mapping[str, Any]]], empty: str, *, with_words: bool = True
) -> None:
    """Write one row for each session; when there is none, say `empty` on stderr."""
    print_table(session_table(rows, now(), with_words=with_words), empty)
