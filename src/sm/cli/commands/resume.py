"""End the pause or the usage limit of an account.

Agents whose turn a limit cut off get a message to go on, one agent after the other. If the limit is not over, the
next turn parks the account again.

\b
Examples:
  sm resume --account claude-1a2b3c4d
"""

from urllib.parse import quote

import click

from sm.cli.call import Call, json_option
from sm.cli.display.output import print_json, print_lines
from sm.cli.display.text import line
from sm.client.http import decode_answer


@click.command(help=__doc__)
@click.option("--account", metavar="NAME", required=True, help="The account, as in sm accounts.")
@json_option
def command(account: str, call: Call) -> None:
    text = call.client.text("POST", f"/v1/accounts/{quote(account, safe='')}/resume", body={})
    if call.as_json:
        print_json(text)
        return
    answer = decode_answer(text)
    print_lines(
        [
            f"Resumed account {line(account)}"
            if answer["resumed"]
            else f"Account {line(account)} is not parked"
        ]
    )
