"""`sm approve`: answer a request."""

import click

from sm.cli.answering import settle
from sm.cli.options import json_option, request_argument


@click.command()
@request_argument
@click.argument("message", required=False)
@json_option
def command(request: str, message: str | None, as_json: bool) -> None:
    """Grant a permission, or agree to a plan or a proposed completion.

    REQUEST is one of `sm requests` (`sm requests r57` shows exactly what is asked), or a session with exactly one. The
    agent goes on at once; MESSAGE is sent to it after that. The first answer wins.

    \b
    Example:
      sm approve r57
    """
    settle(request, {"approved": True, "message": message}, "Approved", as_json=as_json)
