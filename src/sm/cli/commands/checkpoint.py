"""Report a milestone.

Only agents can run this command. sm checkpoints lists the milestones. A count in the message, such as (3/5 tasks),
sets the percentage that sm progress shows.

\b
Examples:
  sm checkpoint "Data model implemented (3/5 tasks)" --metadata coverage=81
"""

import shlex

import click

from sm.cli.display.errors import print_warnings
from sm.cli.options import TextCommand, key_value
from sm.cli.report import send_report
from sm.errors import UsageError


@click.command(help=__doc__, cls=TextCommand)
@click.argument("message")
@click.argument("more", metavar="", nargs=-1)
@click.option(
    "--metadata", metavar="KEY=VALUE ...", multiple=True, help="Values to store with the milestone."
)
def command(message: str, more: tuple[str, ...], metadata: tuple[str, ...]) -> None:
    if more and not metadata:
        raise UsageError(
            "the message must be one argument",
            f"quote the message: sm checkpoint {shlex.quote(' '.join((message, *more)))}",
        )
    facts = key_value("--metadata", (*metadata, *more), 'sm checkpoint "..." --metadata coverage=81')
    made = send_report("checkpoint", "checkpoints", {"message": message, "metadata": facts})
    if made is not None:
        print_warnings(made.get("warnings") or [])
        click.echo("Checkpoint recorded")
