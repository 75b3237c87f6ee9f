"""`sm me`: the session that a command runs in."""

import os

import click

from sm.cli.display.output import now, print_answer
from sm.cli.display.sessions import session_block
from sm.cli.instance import Instance
from sm.cli.options import json_option


@click.command()
@json_option
def command(as_json: bool) -> None:
    """Show the session that this command runs in.

    \b
    Example:
      sm me --json
    """
    text = Instance(os.environ).client().text("GET", "/v1/me")
    print_answer(text, lambda session: session_block(session, now()), as_json=as_json)
