"""`sm requests`: what sessions wait for."""

import os
from datetime import datetime

import click

from sm.cli.instance import Instance
from sm.cli.parameters import json_option, session_argument
from sm.cli.render import Shown, age, columns, line, padded
from sm.cli.screen import now, say, say_json
from sm.wire import decode, encode


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
    from sm.text import quoted  # an agent's words must end where they end: what to type follows them

    name, answer, reason = request["request_id"], request["answer"], request["reason"] or ""
    is_open, is_question = request["state"] == "open", request["kind"] == "question"
    if is_question:
        what = " / ".join(_question(each) for each in request["questions"])
    elif request["kind"] == "completion":
        words = " ".join(each["question"] for each in request["questions"])
        what = f"done: {quoted(words)}" if words else "done"
    else:
        arguments = encode(request["arguments"]) if request["arguments"] else ""
        what = quoted(f"{request['tool'] or 'a tool'} {arguments}".rstrip())
    if is_open and is_question:
        return f"{what} - sm answer {name}{' TEXT' * len(request['questions'])}"
    if is_open:
        verb = "reject" if request["kind"] == "completion" else "deny"
        return f"{what} - sm approve {name}, or: sm {verb} {name}"
    if answer is None:
        return f"{what} - {line(reason or '-')}"
    said = " / ".join(answer["answers"]) or answer["message"]
    decided = "" if answer["answers"] else "approved" if answer["approved"] else "declined"
    parts = [part for part in (decided, quoted(said) if said else "") if part]
    return f"{what} - {': '.join(parts)} by {line(request['answered_by'] or '-')}"


def _question(question: Shown) -> str:
    from sm.text import quoted

    options = ", ".join(f"{n}: {quoted(option, 40)}" for n, option in enumerate(question["options"], 1))
    return quoted(question["question"]) + (f" [{options}]" if options else "")
