"""`sm broadcast`: one message to everybody below."""

import os
from typing import Any

import click

from sm.cli.delivery import DeliveryOptions, deliver, delivery_options
from sm.cli.instance import Instance
from sm.cli.options import json_option
from sm.cli.stdin import message_text


@click.command()
@click.argument("text")
@click.option("--recursive", "-r", is_flag=True, help="From an agent: to all its descendants.")
@delivery_options
@json_option
def command(
    text: str,
    recursive: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Send one message to all live children.

    A person's goes to every live agent. TEXT - is read from stdin. The JSON is an array of messages.

    \b
    Example:
      sm broadcast "The API changed: pull before you go on"
    """
    instance = Instance(os.environ)
    audience = instance.client().get("/v1/audience", {"recursive": recursive})
    if not audience and not as_json:
        click.echo("nobody to send it to", err=True)
        return 0
    return deliver(
        instance,
        [session["session_id"] for session in audience],
        message_text(text),
        DeliveryOptions(**options),
        as_json=as_json,
        several=True,
    )
