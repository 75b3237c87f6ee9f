"""Show the last lines of an agent's terminal.

Colours and control characters are removed, so the output cannot affect your terminal. A line that begins with [sm],
as messages of sm do, gets > in front, except in the JSON.

\b
Examples:
  sm output engineer-login --lines 20
"""

import click

from sm.cli.call import Call, json_option
from sm.cli.options import number_option, session_argument
from sm.client.http import session_path
from sm.core.lines import agent_line


@click.command(help=__doc__)
@session_argument
@number_option("--lines", "-n", least=1, default=50, help="Number of lines.")
@json_option
def command(session: str, lines: int, call: Call) -> None:
    path = session_path(session, "/output")
    call.get(path, lambda answer: map(agent_line, answer["lines"]), {"lines": lines, **call.seen})
