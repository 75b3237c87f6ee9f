"""`sm send`: a message to sessions."""

import os
from typing import Any

import click

from sm.cli.delivery import DeliveryOptions, deliver, delivery_options
from sm.cli.instance import Instance
from sm.cli.options import json_option, session_names
from sm.cli.stdin import message_text
from sm.errors import UsageError


@click.command()
@click.argument("sessions", metavar="ID... TEXT", nargs=-1, required=True, shell_complete=session_names)
@delivery_options
@json_option
def command(
    sessions: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> int:
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
    *recipients, text = sessions
    if not recipients:
        raise UsageError("an ID and a text are needed", "sm send ID TEXT")
    return deliver(
        Instance(os.environ),
        list(dict.fromkeys(recipients)),
        message_text(text),
        DeliveryOptions(**options),
        as_json=as_json,
        several=len(recipients) > 1,
    )
