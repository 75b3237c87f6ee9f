"""`sm inbox`: the messages of an agent, or what the operator has to know."""

import os
import sys

import click

from sm.cli.instance import Instance
from sm.cli.parameters import json_option
from sm.cli.polling import until_answered
from sm.cli.render import Shown, json_text, plain_line
from sm.client import Client, new_key
from sm.errors import NotInTime, UsageError
from sm.wire import encode


@click.command()
@click.option("--take", is_flag=True, help="Take them: each is shown once, and counts as arrived.")
@click.option("--wait", is_flag=True, help="Wait until there is one.")
@click.option("--timeout", type=click.FloatRange(min=0, max=86_400), metavar="SECONDS",
              help="With --wait: how long; exit 10 when nothing came.")  # fmt: skip
@click.option(
    "--limit", "-n", type=click.IntRange(1, 50), default=50, show_default=True, help="How many at once."
)
@json_option
def command(take: bool, wait: bool, timeout: float | None, limit: int, as_json: bool) -> int:
    """Show the messages that wait for you, oldest first.

    In an agent its own; for a person what agents without a parent have to tell. Without --take nothing changes.
    The JSON is an array of messages.

    \b
    Example:
      sm inbox --take --wait
    """
    if timeout is not None and not wait:
        raise UsageError("--timeout needs --wait", "sm inbox --take --wait --timeout 60")
    if wait and not take:
        raise UsageError("--wait needs --take", "sm inbox --take --wait")
    instance = Instance(os.environ)
    if not take:
        _say(instance.client().get("/v1/inbox", {"limit": limit}), as_json)
        return 0
    key = new_key()

    def ask(client: Client, wait_s: float) -> list[Shown] | None:
        nonlocal key
        body = {"limit": limit, "wait_s": wait_s if wait else None}
        found: list[Shown] = client.post("/v1/inbox/take", body, key=key)
        if not found:
            key = new_key()  # the next question is another one; a repeated one must get the same answer
        return found or (None if wait else [])

    taken = until_answered(instance, ask, timeout)
    if taken is None:
        raise NotInTime(f"no message came within {timeout:g} s")
    _say(taken, as_json)
    sys.stdout.flush()
    if taken:
        instance.client().post("/v1/inbox/confirm", {"message_ids": [m["message_id"] for m in taken]})
    return 0


def _say(messages: list[Shown], as_json: bool) -> None:
    if as_json:
        click.echo(json_text(encode(messages)))
    elif not messages:
        click.echo("no messages", err=True)
    else:
        click.echo("\n\n".join(shown(message) for message in messages))


def shown(message: Shown) -> str:
    """A message with its header; nothing in it can drive the reader's terminal."""
    return "\n".join(plain_line(each) for each in str(message["shown"]).split("\n"))
