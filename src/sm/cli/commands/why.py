"""Explain a session's status, or who answered a request.

For a session: each source, what it reported, since when, and whether it was believed. For a request (r57): its state
and who decided it: you, an agent, somebody at the terminal, or a rule of the configuration.

\b
Examples:
  sm why engineer-login
  sm why r57
"""

from datetime import datetime

import click

from sm.cli.call import Call, json_option
from sm.cli.display.evidence import why_block
from sm.cli.display.output import now
from sm.cli.options import REQUEST_NAME, requests_and_sessions
from sm.client.http import percent_encode, session_path
from sm.core.lines import JsonObject
from sm.core.request_lines import expires, explanation, request_head


@click.command(help=__doc__)
@click.argument("session", metavar="REQUEST|SESSION", shell_complete=requests_and_sessions)
@json_option
def command(session: str, call: Call) -> None:
    if REQUEST_NAME.fullmatch(session):
        call.get(f"/v1/requests/{percent_encode(session)}", lambda request: request_block(request, now()))
    else:
        call.get(session_path(session, "/why"), lambda why: why_block(why, now()))


def request_block(request: JsonObject, at: datetime) -> list[str]:
    """Format a request's state and the reason for it. `request_details` formats its content."""
    lines = [request_head(request, at), f"Because:  {explanation(request)}"]
    if request["state"] == "open" and request["expires_at"]:
        lines.append(f"Expires:  {expires(request, at)}")
    return lines
