"""`sm status`: the whole system, or one session. It only reads; an agent's own line is `sm note`."""

import os

import click

from sm.cli.display.output import now, print_answer
from sm.cli.display.overview import overview
from sm.cli.instance import Instance
from sm.cli.options import json_option, session_argument, workspace_option
from sm.client.http import session_path
from sm.errors import UsageError


@click.command()
@session_argument(required=False)
@workspace_option
@json_option
def command(session: str | None, workspace: str | None, as_json: bool) -> None:
    """Show the whole system, or everything about one session.

    \b
    Example:
      sm status engineer-login
    """
    if session is not None and workspace is not None:
        raise UsageError("--workspace is for the whole system, and an ID names one session")
    client = Instance(os.environ).client()
    if session is None:
        print_answer(client.text("GET", "/v1/status", {"workspace": workspace}), overview, as_json=as_json)
        return
    from sm.cli.display.sessions import session_block  # the overview starts faster without

    text = client.text("GET", session_path(session))
    print_answer(text, lambda answer: session_block(answer, now()), as_json=as_json)
