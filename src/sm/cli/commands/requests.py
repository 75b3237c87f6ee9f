"""`sm requests`: what sessions wait for."""

import os
import re
from datetime import datetime

import click

from sm.cli.display.output import now, say, say_json, width
from sm.cli.display.requests import asked_block, asked_line
from sm.cli.display.text import Shown, age, columns, line, padded
from sm.cli.instance import Instance
from sm.cli.options import json_option, requests_and_sessions
from sm.wire import decode

_A_REQUEST = re.compile(r"[rR][0-9]+")


@click.command()
@click.argument("asked", metavar="[REQUEST|ID]", required=False, shell_complete=requests_and_sessions)
@click.option(
    "--all", "everything", is_flag=True, help="Also those that are answered, expired or called off."
)
@click.option(
    "--limit", "-n", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many."
)
@json_option
def command(asked: str | None, everything: bool, limit: int, as_json: bool) -> None:
    """List the requests that wait for an answer, or show one in full.

    Permissions, plans and questions of agents, and completions that they propose. With REQUEST (r57), or the ID of a
    session, everything that is asked, exactly as it is, and what to type. --all lists what became of earlier ones.

    \b
    Example:
      sm requests
      sm requests r57
    """
    client = Instance(os.environ).client()
    if asked is not None and _A_REQUEST.fullmatch(asked):
        text = client.text("GET", f"/v1/requests/{asked}")
        requests = [] if as_json else [decode(text)]
    else:
        text = client.text("GET", "/v1/requests", {"session": asked, "all": everything, "limit": limit})
        requests = [] if as_json else decode(text)
    if as_json:
        say_json(text)
    elif not requests:
        click.echo("no requests", err=True)
    elif asked is None or (everything and len(requests) > 1):
        say(_rows(requests, now()))
    else:
        blocks = [asked_block(each, now(), width()) for each in requests]
        say("\n".join(block) + ("\n" if n < len(blocks) else "") for n, block in enumerate(blocks, 1))


def _rows(requests: list[Shown], at: datetime) -> list[str]:
    rows = [
        (
            r["request_id"],
            line(r["kind"]),
            line(r["state"]),
            f"{line(r['name'] or '-')} ({r['session_id']})",
            age(r["created_at"], at),
            asked_line(r),
        )
        for r in requests
    ]
    widths = [max(columns(row[n]) for row in rows) for n in range(5)]
    return [
        " | ".join([*(padded(part, w) for part, w in zip(row, widths, strict=False)), row[5]]) for row in rows
    ]
