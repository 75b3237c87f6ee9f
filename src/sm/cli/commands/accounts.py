"""List the accounts of your agents, and why they are parked.

An account is one login of an agent CLI. When a turn meets the usage limit of its account, sm parks the account until
the reset: agents start no new turn, and messages wait. The JSON is an array.

\b
Examples:
  sm accounts
"""

import click

from sm.cli.call import Call, json_option
from sm.cli.display.output import now, print_json, print_lines, print_table
from sm.cli.display.overview import park_text
from sm.cli.display.text_table import Table
from sm.client.http import decode_answer
from sm.core.lines import JsonObject, age, line, plural


@click.command(help=__doc__)
@json_option
def command(call: Call) -> None:
    text = call.client.text("GET", "/v1/accounts")
    if call.as_json:
        print_json(text)
        return
    accounts = decode_answer(text)
    if not accounts:
        print_lines(["No accounts: no agent has been started"])
        return
    print_table(Table([_row(account) for account in accounts], aligned=3, is_cut=False))


def _row(account: JsonObject) -> tuple[str, ...]:
    parked = park_text(account, now(), None)
    state = f"parked {parked}, waiting: {account['waiting']}" if parked else "free"
    success = account["last_success_at"]
    last = f"; last success {age(success, now())}" if success else ""
    sessions = plural(account["sessions"], "session")
    return line(account["name"]), line(account["directory"], 4096), sessions, f"{state}{last}"
