"""Send one message to all live children.

A person's goes to every live agent. TEXT - is read from stdin. The JSON is an array of messages.

\b
Example:
  sm broadcast "The API changed: pull before you go on"
"""

from typing import Any

import click

from sm.cli.call import Call, json_option
from sm.cli.delivery import DeliveryOptions, deliver, delivery_options
from sm.cli.stdin import message_text


@click.command(help=__doc__)
@click.argument("text")
@click.option("--recursive", "-r", is_flag=True, help="From an agent: to all its descendants.")
@delivery_options
@json_option
def command(text: str, recursive: bool, call: Call, **options: Any) -> int:
    audience = call.client.get("/v1/audience", {"recursive": recursive})
    if not audience and not call.as_json:
        click.echo("nobody to send it to", err=True)
        return 0
    recipients = [session["session_id"] for session in audience]
    return deliver(call, recipients, message_text(text), DeliveryOptions(**options), several=True)
