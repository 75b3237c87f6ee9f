"""Send a message to one or several agents.

TEXT - is read from stdin. Waits up to 5 s to see what becomes of it. To an agent whose parent you are (a person
is everybody's) and that has exactly one open question, it is the answer. While a dialog is open in its terminal, or
somebody types there, it is held and says why: `sm answer`, `sm approve` and `sm deny` close the dialog. The JSON is
the message, with several IDs an array.

\b
Example:
  sm send engineer-login "Add error handling for network failures"
  git diff | sm send reviewer-1 reviewer-2 -
"""

from typing import Any

import click

from sm.cli.call import Call, json_option
from sm.cli.delivery import DeliveryOptions, deliver, delivery_options
from sm.cli.options import session_names
from sm.cli.stdin import message_text
from sm.errors import UsageError


@click.command(help=__doc__)
@click.argument("sessions", metavar="ID... TEXT", nargs=-1, required=True, shell_complete=session_names)
@delivery_options
@json_option
def command(sessions: tuple[str, ...], call: Call, **options: Any) -> int:
    *named, text = sessions
    if not named:
        raise UsageError("an ID and a text are needed", "sm send ID TEXT")
    recipients = list(dict.fromkeys(named))
    several = len(named) > 1
    return deliver(call, recipients, message_text(text), DeliveryOptions(**options), several=several)
