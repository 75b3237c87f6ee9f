"""`sm children`: what a session has started."""

import os

import click

from sm.cli.display.output import say_json, say_sessions
from sm.cli.display.text import nested
from sm.cli.instance import Instance
from sm.cli.options import json_option, narrowing_options, session_argument
from sm.client.http import session_path
from sm.core.states import Status
from sm.wire import decode


@click.command()
@session_argument(required=False)
@click.option("--recursive", "-r", is_flag=True, help="Grandchildren and all below, as a tree.")
@click.option("--status", type=click.Choice([*map(str, Status), "all"]), help="Only those with this status.")
@narrowing_options
@json_option
def command(
    session: str | None,
    recursive: bool,
    status: str | None,
    archived: bool,
    search: str | None,
    workspace: str | None,
    as_json: bool,
) -> None:
    """List the children of a session.

    Without ID your own: in an agent its children, for a person the sessions that nobody else started.

    \b
    Example:
      sm children engineer-login --recursive
    """
    query = {
        "recursive": recursive,
        "status": None if status == "all" else status,
        "archived": archived,
        "search": search,
        "workspace": workspace,
    }
    text = Instance(os.environ).client().text("GET", session_path(session or "-", "/children"), query)
    if as_json:
        say_json(text)
    else:
        # Seed 003 shows the tree without what they say: `sm all` has both.
        say_sessions(nested(decode(text)), "no children", saying_too=not recursive)
