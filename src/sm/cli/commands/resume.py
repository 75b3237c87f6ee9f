"""End the pause or the usage limit of an account.

Agents whose turn a limit cut off get a message to go on, one agent after the other. If the limit is not over, the
next turn parks the account again.

\b
Examples:
  sm resume --account claude-1a2b3c4d
"""

import click

from sm.cli.call import Call, json_option
from sm.cli.options import account_option
from sm.client.http import account_path
from sm.core.lines import JsonObject, line


@click.command(help=__doc__)
@account_option
@json_option
def command(account: str, call: Call) -> None:
    def layout(answer: JsonObject) -> list[str]:
        name = line(account)
        return [f"Resumed account {name}" if answer["resumed"] else f"Account {name} is not parked"]

    call.show(call.client.text("POST", account_path(account, "/resume"), body={}), layout)
