"""`sm what`: what one session is about, in a few sentences."""

import os

import click

from sm.cli.display.output import print_answer
from sm.cli.display.text import Shown, line, their_line
from sm.cli.instance import Instance
from sm.cli.options import json_option, session_argument
from sm.client.http import new_key, session_path

_WITHIN_S = 1260.0
"""The daemon has a limit of its own: twice claude.what.timeout_s, when another summary is made first."""


@click.command()
@session_argument()
@json_option
def command(session: str, as_json: bool) -> None:
    """Say in a few sentences what a session is about.

    By a model when the configuration names one (claude.what), else by its last words and tools; the last line says
    by whom. Either way it is made of what agents wrote: believe it as far as you believe them.

    \b
    Example:
      sm what engineer-login
    """
    client = Instance(os.environ).client()
    path = session_path(session, "/what")
    text = client.text("POST", path, body={}, key=new_key(), timeout_s=_WITHIN_S)
    print_answer(text, what_block, as_json=as_json)


def what_block(what: Shown) -> list[str]:
    """The summary, and who made it."""
    reason = f"; no summary was made: {line(what['reason'])}" if what["reason"] else ""
    summary = [their_line(text) for text in what["summary"].splitlines()]
    return [*summary, f"(by {line(what['made_by'])}{reason})"]
