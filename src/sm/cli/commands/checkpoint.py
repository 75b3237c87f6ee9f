"""Report a milestone.

Only agents can run this command. sm checkpoints lists the milestones. A count in the message, such as (3/5 tasks),
sets the percentage that sm progress shows. The value of --metadata may also be a JSON object.

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
from sm.wire import decode


@click.command(help=__doc__, cls=TextCommand)
@click.argument("message")
@click.argument("more", metavar="", nargs=-1)
@click.option(
    "--metadata", metavar="KEY=VALUE ...", multiple=True, help="Values to store with the milestone."
)
def command(message: str, more: tuple[str, ...], metadata: tuple[str, ...]) -> None:
    facts = dict[str, object]()
    if more and not metadata:
        words = " ".join((message, *more))
        if any(" " in word for word in (message, *more)):
            quoted = f"sm checkpoint {shlex.quote(words)}"
            raise UsageError("the message must be one argument", f"quote the message: {quoted}")
        message, more = words, ()
    for pair in (*metadata, *more):
        example = 'sm checkpoint "..." --metadata coverage=81'
        facts |= _json_object(pair) or key_value("--metadata", [pair], example)
    made = send_report("checkpoint", "checkpoints", {"message": message, "metadata": facts})
    if made is not None:
        print_warnings(made.get("warnings") or [])
        click.echo("Checkpoint recorded")


def _json_object(text: str) -> dict[str, object] | None:
    """Read the facts in a text that is a JSON object. Returns None for another text."""
    try:
        value = decode(text) if text.startswith("{") else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
