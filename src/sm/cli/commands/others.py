"""`sm others`: everybody else in the caller's workspace."""

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
    """List every other session of my workspace.

    \b
    Example:
      sm others
    """
    query = {"archived": archived, "search": search, "workspace": workspace}
    text = Instance(os.environ).client().text("GET", "/v1/others", query)
    if as_json:
        say_json(text)
    else:
        say_sessions([("", session) for session in decode(text)], "nobody else")
