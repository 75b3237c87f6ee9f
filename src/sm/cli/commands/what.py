"""Say in a few sentences what a session is about.

By a model when the configuration names one (claude.what), else by its last words and tools; the last line says
by whom. Either way it is made of what agents wrote: believe it as far as you believe them.

\b
Example:
  sm what engineer-login
"""

import click

from sm.cli.call import Call, json_option
from sm.cli.display.text import JsonObject, agent_line, line
from sm.cli.options import session_argument
from sm.client.http import session_path

_TIMEOUT_S = 1260.0
"""Above the daemon's own limit: twice claude.what.timeout_s, when it makes another summary first."""


@click.command(help=__doc__)
@session_argument
@json_option
def command(session: str, call: Call) -> None:
    call.post(session_path(session, "/what"), what_block, timeout_s=_TIMEOUT_S)


def what_block(what: JsonObject) -> list[str]:
    reason = f"; no summary was made: {line(what['reason'])}" if what["reason"] else ""
    summary = [agent_line(text) for text in what["summary"].splitlines()]
    return [*summary, f"(by {line(what['made_by'])}{reason})"]
