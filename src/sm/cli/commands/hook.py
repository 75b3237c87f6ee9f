"""Report an agent's event to the daemon (for agent hooks).

Reads the event from stdin. When the event opens a dialog, waits for the answer and prints it; otherwise prints
nothing. Always exits with 0, and does nothing outside a session.

\b
Examples:
  echo '{"hook_event_name": "Stop"}' | sm hook claude
"""

import time

import click

from sm.cli.hook.emit import emit
from sm.registry import PROVIDERS, hook_format


# For `sm hook --help`: `sm.cli.main` runs `sm hook PROVIDER` without click.
@click.command(help=__doc__)
@click.argument("provider", type=click.Choice([name for name in PROVIDERS if hook_format(name)]))
@click.option("--await-tools", is_flag=True, help="Wait for the tools of sm before the agent's first turn.")
def command(provider: str, await_tools: bool) -> None:
    emit(provider, time.time_ns(), awaits_tools=await_tools)
