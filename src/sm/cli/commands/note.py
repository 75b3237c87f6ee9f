"""Set a one-line note about the current work.

Only agents can run this command. Lists show the note next to the session until the next note.

\b
Examples:
  sm note "Writing the tests"
"""

import click

from sm.cli.display.errors import print_warnings
from sm.cli.options import TextCommand
from sm.cli.report import send_report


@click.command(help=__doc__, cls=TextCommand)
@click.argument("text")
def command(text: str) -> None:
    if (session := send_report("note", "note", {"text": text})) is not None:
        print_warnings(session.get("warnings") or [])
        click.echo("Note recorded")
