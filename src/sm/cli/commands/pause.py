"""Park an account: its agents start no turn.

sm resume ends that. Agents that work are left alone. Messages wait, and new agents stay in the status spawned.

\b
Examples:
  sm pause --account claude-1a2b3c4d
"""

from urllib.parse import quote

import click

from sm.cli.call import Call, json_option
from sm.cli.display.output import print_json, print_lines
from sm.cli.display.text import line


@click.command(help=__doc__)
@click.option("--account", metavar="NAME", required=True, help="The account, as in sm accounts.")
@json_option
def command(account: str, call: Call) -> None:
    text = call.client.text("POST", f"/v1/accounts/{quote(account, safe='')}/pause", body={})
    if call.as_json:
        print_json(text)
        return

    print_lines([f"Paused account {line(account)}"])
