"""Writing answers: what stdout is, and the objects of the daemon on it."""

import os
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import click

from sm.cli.display.text import json_text, session_rows


def now() -> datetime:
    return datetime.now(UTC)


def say(lines: Iterable[str]) -> None:
    """Write the answer's lines in one go."""
    text = "\n".join(lines)
    if text:
        click.echo(text)


def say_json(document: str) -> None:
    """Write one JSON document as it came from the daemon."""
    click.echo(json_text(document))


def width() -> int | None:
    """The columns of the person's terminal; None when stdout is no terminal."""
    return os.get_terminal_size(1).columns or None if sys.stdout.isatty() else None


def colour() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def say_sessions(
    rows: Iterable[tuple[str, Mapping[str, Any]]], none: str, *, saying_too: bool = True
) -> None:
    """Write one line for each session; when there is none say `none` on stderr."""
    lines = session_rows(rows, now(), saying_too=saying_too, width=width(), colour=colour())
    if lines:
        say(lines)
    else:
        click.echo(none, err=True)
