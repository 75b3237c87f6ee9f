"""`sm reject`: answer a request."""

import click

from sm.cli.answering import settle
from sm.cli.options import json_option, request_argument


@click.command()
@request_argument
@click.argument("message", required=False)
@json_option
def command(request: str, message: str | None, as_json: bool) -> None:
    """Refuse a proposed completion, a permission or a question.

    REQUEST is one of `sm requests`, or a session with exactly one. MESSAGE is what the agent is told: why, and
    what to do instead. The first answer wins.

    \b
    Example:
      sm reject r57 'the tests fail on main'
    """
    settle(request, {"approved": False, "message": message}, "Rejected", as_json=as_json)
