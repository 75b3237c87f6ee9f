"""`sm me`: the session that a command runs in."""

import os

import click

from sm.cli.display.output import now, say, say_json
from sm.cli.display.text import session_block
from sm.cli.instance import Instance
from sm.cli.options import json_option
from sm.wire import decode


@click.command()
@json_option
def command(as_json: bool) -> None:
    """Show the session that this command runs in.

    \b
    Example:
      sm me --json
    """
    text = Instance(os.environ).client().text("GET", "/v1/me")
    if as_json:
        say_json(text)
    else:
        say(session_block(decode(text), now()))
