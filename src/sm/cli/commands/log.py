"""`sm log`: what was sent, and what became of it."""

import os

import click

from sm.cli.display.output import print_json, print_table
from sm.cli.display.table import Table
from sm.cli.display.text import Shown, clock, line
from sm.cli.instance import Instance
from sm.cli.options import json_option, session_argument
from sm.wire import decode


@click.command()
@session_argument(required=False)
@click.option(
    "--limit", "-n", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many."
)
@json_option
def command(session: str | None, limit: int, as_json: bool) -> None:
    """Show the last messages, and what became of them.

    Those from and to session ID; without it in an agent its own, for a person all. The JSON is an array of messages.

    \b
    Example:
      sm log engineer-login
    """
    text = Instance(os.environ).client().text("GET", "/v1/messages", {"session": session, "limit": limit})
    if as_json:
        print_json(text)
    else:
        print_table(_table(decode(text)), "no messages")


def _table(messages: list[Shown]) -> Table:
    rows = [
        (
            str(m["message_id"]),
            clock(m["created_at"], None),
            f"{line(m['from'])} -> {m['session_id'] or 'operator'}",
            line(m["status"]),
            f'"{line(m["text"], 80)}"' + (f" ({line(m['reason'])})" if m["reason"] else ""),
        )
        for m in messages
    ]
    return Table(rows, aligned=4, is_cut=False)
