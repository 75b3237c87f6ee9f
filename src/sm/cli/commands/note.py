"""Say in one line what is being done now.

It stands beside the session until the next note.

\b
Example:
  sm note "Writing the tests"
"""

import click

from sm.cli.report import send_report


@click.command(help=__doc__)
@click.argument("text")
def command(text: str) -> None:
    if send_report("note", "note", {"text": text}) is not None:
        click.echo("Note recorded")
