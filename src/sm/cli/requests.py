"""`sm requests`: what sessions wait for."""

import os
from datetime import datetime

import click

from sm.cli.instance import Instance
from sm.cli.parameters import json_option, session_argument
from sm.cli.render import Shown, age, columns, line, padded
from sm.cli.screen import now, say, say_json
from sm.wire import decode


@click.command()
@session_argument(required=False)
@click.option(
    "--all", "everything", is_flag=True, help="Also those that are answered, expired or called off."
)
@click.option(
    "--limit", "-n", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many."
)
@json_option
def command(session: str | None, everything: bool, limit: int, as_json: bool) -> None:
    """List the requests that wait for an answer.

    \b
    Example:
      sm requests
    """
    query = {"session": session, "all": everything, "limit": limit}
    text = Instance(os.environ).client().text("GET", "/v1/requests", query)
    if as_json:
        say_json(text)
        return
    requests = decode(text)
    if requests:
        say(_rows(requests, now()))
    else:
        click.echo("no requests", err=True)


def _rows(requests: list[Shown], at: datetime) -> list[str]:
    rows = [
        (
            r["request_id"],
            line(r["kind"]),
            line(r["state"]),
            f"{line(r['name'] or '-')} ({r['session_id']})",
            age(r["created_at"], at),
            _what(r),
        )
        for r in requests
    ]
    widths = [max(columns(row[n]) for row in rows) for n in range(5)]
    return [
        " | ".join([*(padded(part, w) for part, w in zip(row, widths, strict=False)), row[5]]) for row in rows
    ]


def _what(request: Shown) -> str:
    """What is asked, how to answer while that helps, and what was answered."""
    asked = " / ".join(f'"{line(q["question"])}"' for q in request["questions"])
    options = ", ".join(f"{n}: {line(option, 40)}" for n, option in enumerate(request["options"], 1))
    what = asked or f"{line(request['tool'] or '')} {line(request['message'] or '')}".strip()
    what += f" [{options}]" if options else ""
    name, answer = request["request_id"], request["answer"]
    if request["state"] == "open":
        verb = "answer" if request["kind"] == "question" else "approve"
        return f"{what} - sm {verb} {name}{' TEXT' if verb == 'answer' else ''}"
    if answer is None:
        return f"{what} - {line(request['reason'] or '')}"
    said = (
        " / ".join(answer["answers"])
        or answer["message"]
        or ("approved" if answer["approved"] else "declined")
    )
    return f'{what} - "{line(said)}" by {line(request["answered_by"])}'
