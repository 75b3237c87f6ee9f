"""`sm checkpoint`: an agent reports a milestone."""

import shlex

import click

from sm.cli.report import send_report
from sm.errors import UsageError


@click.command()
@click.argument("message")
@click.argument("more", metavar="", nargs=-1)
@click.option("--metadata", metavar="KEY=VALUE ...", multiple=True, help="Facts to keep with it.")
def command(message: str, more: tuple[str, ...], metadata: tuple[str, ...]) -> None:
    """Report a milestone to the parent.

    `(3/5 tasks)` in the message tells how far the work has come.

    \b
    Example:
      sm checkpoint "Data model implemented (3/5 tasks)" --metadata coverage=81
    """
    if more and not metadata:
        raise UsageError(
            "the message must be one argument",
            f"quote it: sm checkpoint {shlex.quote(' '.join((message, *more)))}",
        )
    body = {"message": message, "metadata": dict(_pair(text) for text in (*metadata, *more))}
    if send_report("checkpoint", "checkpoints", body) is not None:
        click.echo("Checkpoint recorded")


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise UsageError(
            f"--metadata {text!r} is not KEY=VALUE", 'sm checkpoint "..." --metadata coverage=81'
        )
    return key, value
