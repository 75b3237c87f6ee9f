"""`sm who`: the siblings of the caller."""

import os

import click

from sm.cli.display.output import say_json, say_sessions
from sm.cli.instance import Instance
from sm.cli.options import json_option, narrowing_options
from sm.wire import decode


@click.command()
@narrowing_options
@json_option
def command(archived: bool, search: str | None, workspace: str | None, as_json: bool) -> None:
    """List the other children of my parent.

    For a person: the sessions without a parent.

    \b
    Example:
      sm who
    """
    query = {"archived": archived, "search": search, "workspace": workspace}
    text = Instance(os.environ).client().text("GET", "/v1/who", query)
    if as_json:
        say_json(text)
    else:
        say_sessions([("", session) for session in decode(text)], "nobody else")
