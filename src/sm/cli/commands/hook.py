"""`sm hook`: an agent's own hooks tell the daemon what happens. Here is its help: `main` runs it without click."""

import time

import click

from sm.cli.hook.emit import emit
from sm.cli.hook.formats import FORMATS


@click.command()
@click.argument("provider", type=click.Choice(list(FORMATS)))
def command(provider: str) -> None:
    """Hand over an event of an agent; for its hooks, not for people.

    The event is read from stdin. When a dialog opens with it, the answer to that is waited for and printed. Else
    nothing is printed; the exit code is 0, whatever happens; outside a session nothing is done.

    \b
    Example:
      echo '{"hook_event_name": "Stop"}' | sm hook claude
    """
    emit(provider, time.time_ns())
