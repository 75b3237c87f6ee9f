"""Hand over an event of an agent; for its hooks, not for people.

The event is read from stdin. When a dialog opens with it, the answer to that is waited for and printed. Else
nothing is printed; the exit code is 0, whatever happens; outside a session nothing is done.

\b
Example:
  echo '{"hook_event_name": "Stop"}' | sm hook claude
"""

import time

import click

from sm.cli.hook.emit import emit
from sm.cli.hook.formats import FORMATS


# For `sm hook --help`: `sm.cli.main` runs `sm hook PROVIDER` without click.
@click.command(help=__doc__)
@click.argument("provider", type=click.Choice(list(FORMATS)))
def command(provider: str) -> None:
    emit(provider, time.time_ns())
