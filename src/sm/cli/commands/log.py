"""Show sent messages and whether they arrived.

With SESSION: the messages from and to that session. Without SESSION: an agent's own messages; from your shell, all
messages. Newest last.

The JSON is an array of messages.

\b
Examples:
  sm log engineer-login
"""

import click

from sm.cli.call import Call, json_option
from sm.cli.display.output import now
from sm.cli.display.text_table import Table
from sm.cli.options import number_option, optional_session
from sm.core.lines import JsonObject, clock, line
from sm.core.message_lines import status_of
from sm.core.session_lines import label


@click.command(help=__doc__)
@optional_session
@number_option("--limit", "-n", least=1, default=20, help="Maximum number of messages.")
@json_option
def command(session: str | None, limit: int, call: Call) -> None:
    call.get("/v1/messages", _table, {"session": session, "limit": limit, **(call.seen if session else {})})


def _table(messages: list[JsonObject]) -> Table:
    rows = [
        (
            str(m["message_id"]),
            clock(m["created_at"], now()),
            f"{line(m.get('from_label') or m['from'])} -> {label(m)}",
            status_of(m),
            _text(m) + (f" ({line(m['reason'])})" if m["reason"] and m["status"] != "submitted" else ""),
        )
        for m in messages
    ]
    return Table(rows, aligned=4, empty="no messages", is_cut=False)


def _text(message: JsonObject) -> str:
    # Messages have a text until the session is removed, or until sm clears the text of an old notice.
    return f'"{line(message["text"], 80)}"' if message["text"] else "text deleted"
