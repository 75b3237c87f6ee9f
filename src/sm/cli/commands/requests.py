"""`sm requests`: what sessions wait for."""

import os
import re
from datetime import datetime

import click

from sm.cli.display.output import now, print_json, print_lines, print_table, width
from sm.cli.display.requests import asked_block, asked_line
from sm.cli.display.table import Table
from sm.cli.display.text import Shown, age, line
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
        print_json(text)
    elif not requests:
        click.echo("no requests", err=True)
    elif asked is None or (everything and len(requests) > 1):
        print_table(_table(requests, now()), "no requests")
    else:
        blocks = [asked_block(each, now(), width()) for each in requests]
        print_lines("\n".join(block) + ("\n" if n < len(blocks) else "") for n, block in enumerate(blocks, 1))


def _table(requests: list[Shown], at: datetime) -> Table:
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
    return Table(rows, aligned=5, is_cut=False)
