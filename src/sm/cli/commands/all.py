"""`sm all`: every session."""

import os

import click

from sm.cli.display.output import say_json, say_sessions
from sm.cli.display.text import tree
from sm.cli.instance import Instance
from sm.cli.options import json_option, narrowing_options
from sm.core.states import Status
from sm.wire import decode


@click.command()
@click.option("--status", type=click.Choice([*map(str, Status), "all"]), help="Only those with this status.")
@narrowing_options
@json_option
def command(
    status: str | None, archived: bool, search: str | None, workspace: str | None, as_json: bool
) -> None:
    """Show every session as a tree.

    \b
    Example:
      sm all --status running
    """
    query = {
        "status": None if status == "all" else status,
        "archived": archived,
        "search": search,
        "workspace": workspace,
    }
    text = Instance(os.environ).client().text("GET", "/v1/sessions", query)
    if as_json:
        say_json(text)
    else:
        say_sessions(tree(decode(text)), "no sessions")
