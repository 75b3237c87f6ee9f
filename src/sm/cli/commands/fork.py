"""`sm fork`: a second session with the conversation of another."""

import os

import click

from sm.cli.display.errors import warning_text
from sm.cli.display.output import print_json
from sm.cli.display.sessions import label
from sm.cli.display.text import line
from sm.cli.instance import Instance
from sm.cli.options import json_option, session_argument
from sm.client.http import new_key, session_path
from sm.wire import decode


@click.command()
@session_argument()
@click.option("--name", metavar="NAME", help="A friendly name for the new session.")
@json_option
def command(session: str, name: str | None, as_json: bool) -> None:
    """Start a second agent with all that another one knows.

    The new session goes on with a copy of the conversation, in the same directory and below the same parent; the
    other one is left as it is, whether it runs or has ended. A program has no conversation and cannot be forked.

    \b
    Example:
      sm fork engineer-login --name login-other-way
    """
    path = session_path(session, "/fork")
    text = Instance(os.environ).client().text("POST", path, body={"name": name}, key=new_key())
    forked = decode(text)
    for warning in forked.get("warnings") or []:
        click.echo(warning_text(warning), nl=False, err=True)
    if as_json:
        print_json(text)
    else:
        click.echo(f"Forked {label(forked)} in tmux session {line(forked['tmux_session'])}")
