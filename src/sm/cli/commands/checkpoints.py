"""List the milestones that a session reported.

\b
Examples:
  sm checkpoints engineer-login
"""

import click

from sm.cli.call import Call, json_option
from sm.cli.display.text import JsonObject, checkpoint_line
from sm.cli.options import session_argument
from sm.client.http import session_path


@click.command(help=__doc__)
@session_argument
@json_option
def command(session: str, call: Call) -> None:
    call.get(session_path(session, "/checkpoints"), _lines)


def _lines(checkpoints: list[JsonObject]) -> list[str]:
    if not checkpoints:
        click.echo("no checkpoints", err=True)
    return [checkpoint_line(checkpoint, None) for checkpoint in checkpoints]
