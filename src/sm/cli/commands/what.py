"""Summarize a session in a few sentences.

If the configuration names a model (claude.what), the model writes the summary. Otherwise the summary quotes the latest
prompt, answer and tool. The last line says who wrote it. Every summary is based on texts of the agent and may be
wrong.

\b
Examples:
  sm what engineer-login
"""

import click

from sm.cli.call import Call, json_option
from sm.cli.options import session_argument
from sm.client.http import session_path
from sm.core.lines import JsonObject, agent_line, line

_TIMEOUT_S = 1260.0
"""Above the daemon's own limit: twice claude.what.timeout_s, when it makes another summary first."""


@click.command(help=__doc__)
@session_argument
@json_option
def command(session: str, call: Call) -> None:
    call.post(session_path(session, "/what"), what_block, timeout_s=_TIMEOUT_S)


def what_block(what: JsonObject) -> list[str]:
    reason = f"; no model used: {line(what['reason'])}" if what["reason"] else ""
    summary = [agent_line(text) for text in what["summary"].splitlines()]
    return [*summary, f"(by {line(what['made_by'])}{reason})"]
