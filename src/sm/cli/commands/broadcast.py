"""`sm broadcast`: one message to everybody below."""

import os

import click

from sm.cli.delivery import deliver, delivery_options, words
from sm.cli.instance import Instance
from sm.cli.options import json_option


@click.command()
@click.argument("text")
@click.option("--recursive", "-r", is_flag=True, help="From an agent: to all its descendants.")
@delivery_options
@json_option
def command(
    text: str,
    recursive: bool,
    mode: str,
    urgent: bool,
    ttl: float | None,
    wait: float | None,
    no_wait: bool,
    rate_wait_s: float,
    as_json: bool,
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
        words(text),
        urgent=urgent,
        mode=mode,
        ttl=ttl,
        wait=wait,
        no_wait=no_wait,
        rate_wait_s=rate_wait_s,
        as_json=as_json,
        several=True,
    )
