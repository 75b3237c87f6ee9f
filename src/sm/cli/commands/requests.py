"""List open requests, or show one in full.

Requests are permissions, plans and questions that agents wait for, and completions that they propose. A request of kind
setup is a dialog in which an agent waits at its start. One of kind dialog can be answered only at the agent's terminal
(sm attach). With a request ID (r57) or a session, shows everything that the
agent asks for, and the command that answers it. For a completion, it counts the changed files and lines, as sm diff
--stat does.

\b
Examples:
  sm requests
  sm requests r57
  sm requests --all
"""

from datetime import datetime

import click

from sm.cli.call import Call, json_option
from sm.cli.display.output import now, width
from sm.cli.display.text_table import Table
from sm.cli.options import REQUEST_NAME, number_option, requests_and_sessions
from sm.client.http import percent_encode
from sm.core.lines import JsonObject, age, line
from sm.core.request_lines import request_block, request_details, request_line
from sm.core.session_lines import label


@click.command(help=__doc__)
@click.argument("asked", metavar="[REQUEST|SESSION]", required=False, shell_complete=requests_and_sessions)
@click.option("--all", "everything", is_flag=True, help="Include answered, expired and cancelled requests.")
@number_option("--limit", "-n", least=1, default=50, help="With --all: maximum number of requests.")
@json_option
def command(asked: str | None, everything: bool, limit: int, call: Call) -> None:
    def layout(requests: list[JsonObject]) -> Table | list[str]:
        if not requests or asked is None or (everything and len(requests) > 1):
            columns = width()
            if columns is None or not requests:
                return _table(requests, now())
            return ["\n\n".join("\n".join(request_block(r, now(), columns)) for r in requests)]
        blocks = [
            "\n".join(request_details(request, now(), width(), _changes_of(call, request)))
            for request in requests
        ]
        return ["\n\n".join(blocks)]

    if asked is not None and REQUEST_NAME.fullmatch(asked):
        call.get(f"/v1/requests/{percent_encode(asked)}", lambda request: layout([request]))
    else:
        call.get("/v1/requests", layout, {"session": asked, "all": everything, "limit": limit})


def _changes_of(call: Call, request: JsonObject) -> str | None:
    """The numbers of the changes of a proposed completion, in words, or None for another request."""
    if request["kind"] != "completion" or request["state"] != "open":
        return None
    from sm.cli.session_patch import proposed_changes  # most requests need no git

    return proposed_changes(call.client, request)


def _table(requests: list[JsonObject], at: datetime) -> Table:
    rows = [
        (
            r["request_id"],
            line(r["kind"]),
            line(r["state"]),
            label(r),
            age(r["created_at"], at),
            request_line(r),
        )
        for r in requests
    ]
    return Table(rows, aligned=5, empty="no requests")
