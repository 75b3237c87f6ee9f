"""`sm reparent`: give a session another parent."""

import os

import click

from sm.cli.display.output import print_json
from sm.cli.display.sessions import label
from sm.cli.instance import Instance
from sm.cli.options import json_option, session_argument, session_names
from sm.client.http import new_key, session_path
from sm.errors import UsageError
from sm.wire import decode


@click.command()
@session_argument()
@click.argument("parent", metavar="[PARENT]", required=False, shell_complete=session_names)
@click.option("--operator", is_flag=True, help="To the operator: it has no parent then.")
@json_option
def command(session: str, parent: str | None, operator: bool, as_json: bool) -> None:
    """Give a session another parent, who is told of it from then on.

    \b
    Example:
      sm reparent engineer-login architect-review
    """
    if (parent is None) is not operator:
        raise UsageError("either PARENT or --operator is needed", "sm reparent --help")
    path = session_path(session, "/reparent")
    text = Instance(os.environ).client().text("POST", path, body={"parent": parent}, key=new_key())
    if as_json:
        print_json(text)
        return
    moved = decode(text)
    click.echo(f"{label(moved)} belongs to {moved['parent_session_id'] or 'the operator'} now")
