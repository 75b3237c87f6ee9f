"""`sm checkpoints`: the milestones of a session."""

import os

import click

from sm.cli.display.output import print_json, print_lines
from sm.cli.display.text import checkpoint_line
from sm.cli.instance import Instance
from sm.cli.options import json_option, session_argument
from sm.client.http import session_path
from sm.wire import decode


@click.command()
@session_argument()
@json_option
def command(session: str, as_json: bool) -> None:
    """List the milestones a session reported.

    \b
    Example:
      sm checkpoints engineer-login
    """
    text = Instance(os.environ).client().text("GET", session_path(session, "/checkpoints"))
    if as_json:
        print_json(text)
        return
    checkpoints = decode(text)
    if not checkpoints:
        click.echo("no checkpoints", err=True)
    print_lines(checkpoint_line(checkpoint, None) for checkpoint in checkpoints)
