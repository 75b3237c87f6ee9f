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
from sm.cli.display.output import Table, now, table_lines
from sm.cli.options import REQUEST_NAME, requests_and_sessions
from sm.client.http import percent_encode, session_path
from sm.core.lines import JsonObject, age, line, seconds_since
from sm.core.request_lines import expires, explanation, request_head
from sm.core.session_lines import label, status_of
from sm.core.timestamps import span


@click.command(help=__doc__)
@click.argument("session", metavar="REQUEST|SESSION", shell_complete=requests_and_sessions)
@json_option
def command(session: str, call: Call) -> None:
    if REQUEST_NAME.fullmatch(session):
        call.get(f"/v1/requests/{percent_encode(session)}", lambda request: request_block(request, now()))
    else:
        call.get(session_path(session, "/why"), lambda why: why_block(why, now()))


def why_block(why: JsonObject, at: datetime) -> list[str]:
    """Format a session's status, its reason, and the evidence of each source."""
    source = f"{line(why['status_source'])}, {age(why['status_at'], at)}"
    lines = [
        f"{label(why)} | {status_of(why, at)}",
        f"Because:  {line(why['status_reason'] or 'no reason was given')} ({source})",
    ]
    if why["status_stale"]:
        lines.append("Stale:    no source has confirmed this status recently; it may have changed")
    if why["evidence"]:
        rows = [
            (line(item["source"]), f"reports {line(item['says'])}", _when(item, at), _belief(item))
            for item in why["evidence"]
        ]
        lines += ["Evidence:", *(f"  {row}" for row in table_lines(Table(rows, aligned=3), "  "))]
    if why["facts"]:
        lines += ["Facts:", *(f"  {line(fact)}" for fact in why["facts"])]
    return lines


def _when(evidence: JsonObject, at: datetime) -> str:
    since, seen = span(seconds_since(evidence["since"], at)), span(seconds_since(evidence["seen"], at))
    return f"{since} ago" if since == seen else f"for {since}, seen {seen} ago"


def _belief(evidence: JsonObject) -> str:
    reason = line(evidence["reason"] or "")
    if evidence["believed"]:
        return f"believed: {reason}" if reason else "believed"
    why_not = f"not believed: {line(evidence['why_not'])}" if evidence["why_not"] else "not believed"
    return f"{why_not} ({reason})" if reason else why_not


def request_block(request: JsonObject, at: datetime) -> list[str]:
    """Format a request's state and the reason for it. `request_details` formats its content."""
    lines = [request_head(request, at), f"Because:  {explanation(request)}"]
    if request["state"] == "open" and request["expires_at"]:
        lines.append(f"Expires:  {expires(request, at)}")
    return lines
