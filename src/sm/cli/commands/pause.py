"""Park an account: its agents start no turn.

sm resume ends that. Agents that work are left alone. Messages wait, and new agents stay in the status spawned.

\b
Examples:
  sm pause --account claude-1a2b3c4d
"""

import click

from sm.cli.call import Call, json_option
from sm.cli.options import account_option
from sm.client.http import account_path
from sm.core.lines import line


@click.command(help=__doc__)
@account_option
@json_option
def command(account: str, call: Call) -> None:
    document = call.client.text("POST", account_path(account, "/pause"), body={})
    call.show(document, lambda _: [f"Paused account {line(account)}"])
