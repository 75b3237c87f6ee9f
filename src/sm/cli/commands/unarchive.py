"""`sm unarchive`: the records of ended sessions."""

import click

from sm.cli.bulk import act_on_each
from sm.cli.display.sessions import label
from sm.cli.options import json_option, session_names
from sm.wire import decode


@click.command()
@click.argument("sessions", metavar="ID...", nargs=-1, required=True, shell_complete=session_names)
@json_option
def command(sessions: tuple[str, ...], as_json: bool) -> int:
    """Bring archived sessions back into sight.

    With several IDs every one is tried; the JSON is then an array.

    \b
    Example:
      sm unarchive engineer-login
    """
    return act_on_each(
        sessions, "unarchive", lambda text: f"Unarchived {label(decode(text))}", as_json=as_json
    )
