"""Show the last lines of a session's terminal.

Without colours and control characters: nothing in it can drive your terminal. A line that claims to be the
daemon's has > in front; the JSON has it as it is.

\b
Example:
  sm output engineer-login --lines 20
"""

import click

from sm.cli.call import Call, json_option
from sm.cli.display.text import agent_line
from sm.cli.options import session_argument
from sm.client.http import session_path


@click.command(help=__doc__)
@session_argument
@click.option("--lines", "-n", type=click.IntRange(1, 10_000), default=50, show_default=True)
@json_option
def command(session: str, lines: int, call: Call) -> None:
    path = session_path(session, "/output")
    call.get(path, lambda answer: map(agent_line, answer["lines"]), {"lines": lines})
