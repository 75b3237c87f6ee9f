"""`sm output`: what stands in a session's terminal."""

import os

import click

from sm.cli.display.output import print_answer
from sm.cli.display.text import their_line
from sm.cli.instance import Instance
from sm.cli.options import json_option, session_argument
from sm.client.http import session_path


@click.command()
@session_argument()
@click.option("--lines", "-n", type=click.IntRange(1, 10_000), default=50, show_default=True)
@json_option
def command(session: str, lines: int, as_json: bool) -> None:
    """Show the last lines of a session's terminal.

    Without colours and control characters: nothing in it can drive your terminal. A line that claims to be the
    daemon's has > in front; the JSON has it as it is.

    \b
    Example:
      sm output engineer-login --lines 20
    """
    text = Instance(os.environ).client().text("GET", session_path(session, "/output"), {"lines": lines})
    print_answer(text, lambda answer: map(their_line, answer["lines"]), as_json=as_json)
