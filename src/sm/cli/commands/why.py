"""Show what a session's status rests on.

Each source with what it says, since when, and whether it was believed. Or, of a request (r57), how it stands and
who decided: a person, a session, whoever sat at the terminal, or a rule of the configuration and what it matched.

\b
Example:
  sm why engineer-login
  sm why r57
"""

from datetime import datetime

import click

from sm.cli.call import Call, json_option
from sm.cli.display.output import Table, now, table_lines
from sm.cli.display.requests import expires, explanation, request_head
from sm.cli.display.sessions import label, status_of
from sm.cli.display.text import JsonObject, age, line, seconds_since, span
from sm.cli.options import REQUEST_NAME, requests_and_sessions
from sm.client.http import quoted, session_path


@click.command(help=__doc__)
@click.argument("session", metavar="REQUEST|ID", shell_complete=requests_and_sessions)
@json_option
def command(session: str, call: Call) -> None:
    if REQUEST_NAME.fullmatch(session):
        call.get(f"/v1/requests/{quoted(session)}", lambda request: request_block(request, now()))
    else:
        call.get(session_path(session, "/why"), lambda why: why_block(why, now()))


def why_block(why: JsonObject, at: datetime) -> list[str]:
    """Format a session's status, its reason, and the evidence of each source."""
    source = f"{line(why['status_source'])}, {age(why['status_at'], at)}"
    lines = [
        f"{label(why)} | {status_of(why, at)}",
        f"Because:  {line(why['status_reason'] or 'nobody has said why')} ({source})",
    ]
    if why["status_stale"]:
        lines.append("Doubt:    nothing has confirmed it for too long; it may be otherwise by now")
    if why["evidence"]:
        rows = [
            (line(item["source"]), f"says {line(item['says'])}", _when(item, at), _belief(item))
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
