"""`sm rm`: forget ended sessions for good."""

import click

from sm.cli.each import each
from sm.cli.parameters import json_option, session_names
from sm.cli.render import line
from sm.wire import decode


@click.command()
@click.argument("sessions", metavar="ID...", nargs=-1, required=True, shell_complete=session_names)
@json_option
def command(sessions: tuple[str, ...], as_json: bool) -> int:
    """Remove ended sessions for good, with all that they left.

    What they said, their terminals, their files; their events stay. With several IDs every one is tried; the JSON is
    then an array.

    \b
    Example:
      sm rm engineer-login
    """
    return each(sessions, "remove", lambda text: f"Removed {line(decode(text)['removed'])}", as_json=as_json)
