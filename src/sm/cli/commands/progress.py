"""`sm progress`: how far a session has come."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from sm.cli.display.output import now, print_json, print_lines
from sm.cli.display.progress import progress_block
from sm.cli.display.text import Shown, json_text
from sm.cli.instance import Instance
from sm.cli.options import json_option, session_argument
from sm.client.http import Client, session_path
from sm.wire import decode, encode

_EVERY_S = 5.0
# What moves with the clock alone is no news.
_CLOCKS = frozenset({"elapsed_seconds", "idle_seconds", "last_tool"})


@click.command()
@session_argument()
@click.option("--watch", "-w", is_flag=True, help="Show it every 5 seconds until the session has ended.")
@json_option
def command(session: str, watch: bool, as_json: bool) -> None:
    """Show how far a session has come.

    What nobody measured is left out. With --watch the JSON is one object per line.

    \b
    Example:
      sm progress engineer-login --watch
    """
    client = Instance(os.environ).client()
    if watch:
        _watch(client, session_path(session, "/progress"), as_json=as_json)
        return
    text = client.text("GET", session_path(session, "/progress"))
    if as_json:
        print_json(text)
    else:
        print_lines(progress_block(decode(text), now(), None))


def _watch(client: Client, path: str, *, as_json: bool) -> None:
    shown = None
    with _display(as_json=as_json) as display:
        while True:
            progress = client.get(path)
            news = {key: value for key, value in progress.items() if key not in _CLOCKS}
            if sys.stdout.isatty() or news != shown:
                display(progress)
            shown = news
            if progress["is_complete"]:
                return
            time.sleep(_EVERY_S)


@contextmanager
def _display(*, as_json: bool) -> Iterator[Callable[[Shown], None]]:
    """How each state is shown: redrawn in place on a terminal, else one block, or one JSON line, for each change."""
    if as_json:
        yield lambda progress: click.echo(json_text(encode(progress)))
    elif not sys.stdout.isatty():
        yield lambda progress: print_lines([*progress_block(progress, now(), None), ""])
    else:
        from sm.cli.display.terminal import live_lines

        with live_lines() as show:
            yield lambda progress: show(progress_block(progress, now(), None))
