"""`sm deny`: answer a request."""

import click

from sm.cli.answering import settle
from sm.cli.options import json_option, request_argument


@click.command()
@request_argument
@click.argument("message", required=False)
@json_option
def command(request: str, message: str | None, as_json: bool) -> None:
    """Refuse a permission, a question or a proposed completion.

    The same as reject. REQUEST is one of `sm requests`, or a session with exactly one. MESSAGE is what the agent is
    told: why, and what to do instead. The first answer wins.

    \b
    Example:
      sm deny r57 'not in this directory: use /srv/shop/build'
    """
    settle(request, {"approved": False, "message": message}, "Denied", as_json=as_json)
