"""Send a message to all your agents.

From your shell the message goes to every live agent. From an agent it goes to its live children. If TEXT is -, it is
read from stdin. The command waits up to 5 seconds for the messages to arrive.

The JSON is an array of messages.

\b
Exit codes:
  0   every message arrived; without --wait, also if some are still queued
  4   a message failed or expired; with --wait, also if it is unconfirmed
  10  timed out (only with --wait); other messages stay queued

\b
Examples:
  sm broadcast "The API changed: pull before you continue"
"""

from typing import Any

import click

from sm.cli.call import Call, json_option
from sm.cli.delivery import DeliveryOptions, deliver, delivery_options
from sm.cli.options import TextCommand
from sm.cli.stdin import message_text


@click.command(help=__doc__, cls=TextCommand)
@click.argument("text")
@click.option("--recursive", "-r", is_flag=True, help="From an agent: include all its descendants.")
@delivery_options
@json_option
def command(text: str, recursive: bool, call: Call, **options: Any) -> int:
    audience = call.client.get("/v1/audience", {"recursive": recursive})
    if not audience and not call.as_json:
        click.echo("no sessions to send the message to", err=True)
        return 0
    recipients = [session["session_id"] for session in audience]
    return deliver(call, recipients, message_text(text), DeliveryOptions(**options), several=True)
