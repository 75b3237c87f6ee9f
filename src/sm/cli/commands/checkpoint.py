"""Report a milestone to the parent.

`(3/5 tasks)` in the message tells how far the work has come.

\b
Example:
  sm checkpoint "Data model implemented (3/5 tasks)" --metadata coverage=81
"""

import shlex

import click

from sm.cli.options import key_value
from sm.cli.report import send_report
from sm.errors import UsageError


@click.command(help=__doc__)
@click.argument("message")
@click.argument("more", metavar="", nargs=-1)
@click.option("--metadata", metavar="KEY=VALUE ...", multiple=True, help="Facts to keep with it.")
def command(message: str, more: tuple[str, ...], metadata: tuple[str, ...]) -> None:
    if more and not metadata:
        raise UsageError(
            "the message must be one argument",
            f"quote it: sm checkpoint {shlex.quote(' '.join((message, *more)))}",
        )
    facts = key_value("--metadata", (*metadata, *more), 'sm checkpoint "..." --metadata coverage=81')
    if send_report("checkpoint", "checkpoints", {"message": message, "metadata": facts}) is not None:
        click.echo("Checkpoint recorded")
