"""Show a session's progress: tokens, cost, tools, activity.

Fields without a measurement are omitted. Estimates come from completed sessions of the same type and model, or from the
session's own finished tasks. With --watch the JSON is one object per line.

\b
Examples:
  sm progress engineer-login --watch
  sm progress architect-shop --tree
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import click

from sm.cli.call import Call, json_option
from sm.cli.display.output import now, print_json, print_lines
from sm.cli.display.progress_block import progress_block
from sm.cli.options import session_argument
from sm.client.http import session_path
from sm.core.lines import JsonObject
from sm.wire import encode

_INTERVAL_S = 5.0
# Fields that change with time alone, not with the agent's progress.
_CLOCKS = frozenset({"elapsed_seconds", "idle_seconds", "last_tool", "minutes", "tree", "own", "estimate"})


@click.command(help=__doc__)
@session_argument
@click.option("--watch", "-w", is_flag=True, help="Update every 5 seconds until the session ends.")
@click.option("--tree", is_flag=True, help="Add the sums of the session and all its descendants.")
@json_option
def command(session: str, watch: bool, tree: bool, call: Call) -> None:
    path, query = session_path(session, "/progress"), {"tree": tree}
    if watch:
        _watch(call, path, query)
    else:
        call.get(path, lambda progress: progress_block(progress, now(), None), query)


def _watch(call: Call, path: str, query: Mapping[str, object]) -> None:
    client = call.client
    shown = None
    with _display(as_json=call.as_json) as display:
        while True:
            progress = client.get(path, query)
            news = {key: value for key, value in progress.items() if key not in _CLOCKS}
            if sys.stdout.isatty() or news != shown:
                display(progress)
            shown = news
            if progress["is_complete"]:
                return
            time.sleep(_INTERVAL_S)


@contextmanager
def _display(*, as_json: bool) -> Iterator[Callable[[JsonObject], None]]:
    """Yield a function that prints progress: redrawn in place on a terminal, else as a block or a JSON line."""
    if as_json:
        yield lambda progress: print_json(encode(progress))
    elif not sys.stdout.isatty():
        yield lambda progress: print_lines([*progress_block(progress, now(), None, watched=True), ""])
    else:
        from sm.cli.display.terminal import live_display

        with live_display() as show:
            yield lambda progress: show(progress_block(progress, now(), None, watched=True))
