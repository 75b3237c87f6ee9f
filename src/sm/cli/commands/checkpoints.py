"""List the milestones that a session reported.

\b
Examples:
  sm checkpoints engineer-login
"""

import click

from sm.cli.call import Call, json_option
from sm.cli.display.output import now
from sm.cli.options import number_option, session_argument
from sm.client.http import session_path
from sm.core.lines import JsonObject, checkpoint_line


@click.command(help=__doc__)
@session_argument
@number_option(
    "--limit", "-n", least=1, most=200, default=50, help="Maximum number of milestones, the newest ones."
)
@json_option
def command(session: str, limit: int, call: Call) -> None:
    call.get(session_path(session, "/checkpoints"), _lines, {"limit": limit})


def _lines(checkpoints: list[JsonObject]) -> list[str]:
    if not checkpoints:
        click.echo("no checkpoints", err=True)
    return [checkpoint_line(checkpoint, now()) for checkpoint in checkpoints]
