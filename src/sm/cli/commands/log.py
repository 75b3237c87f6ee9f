"""`sm log`: what was sent, and what became of it."""

import os

import click

from sm.cli.display.output import say, say_json
from sm.cli.display.text import Shown, clock, columns, line, padded
from sm.cli.instance import Instance
from sm.cli.options import json_option, session_argument
from sm.wire import decode


@click.command()
@session_argument(required=False)
@click.option(
    "--limit", "-n", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many."
)
@json_option
def command(session: str | None, limit: int, as_json: bool) -> None:
    """Show the last messages, and what became of them.

    Those from and to session ID; without it in an agent its own, for a person all. The JSON is an array of messages.

    \b
    Example:
      sm log engineer-login
    """
    text = Instance(os.environ).client().text("GET", "/v1/messages", {"session": session, "limit": limit})
    if as_json:
        say_json(text)
        return
    messages = decode(text)
    if messages:
        say(_rows(messages))
    else:
        click.echo("no messages", err=True)


def _rows(messages: list[Shown]) -> list[str]:
    rows = [
        (
            str(m["message_id"]),
            clock(m["created_at"], None),
            f"{line(m['from'])} -> {m['session_id'] or 'operator'}",
            line(m["status"]),
            f'"{line(m["text"], 80)}"' + (f" ({line(m['reason'])})" if m["reason"] else ""),
        )
        for m in messages
    ]
    widths = [max(columns(row[n]) for row in rows) for n in range(4)]
    return [
        " | ".join([*(padded(part, w) for part, w in zip(row, widths, strict=False)), row[4]]) for row in rows
    ]
