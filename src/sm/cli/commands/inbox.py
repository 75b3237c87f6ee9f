"""`sm inbox`: the messages of an agent, or what the operator has to know."""

import os
import sys

import click

from sm.cli.display.text import Shown, json_text, plain_line
from sm.cli.instance import Instance
from sm.cli.long_poll import until_answered
from sm.cli.options import json_option
from sm.client.http import Client, new_key
from sm.errors import DaemonUnavailable, UsageError, WaitTimeout
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
    if wait:
        taken = _first_to_come(instance, limit, timeout)
    else:
        taken = instance.client().post("/v1/inbox/take", {"limit": limit, "wait_s": None}, key=new_key())
    _say(taken, as_json)
    sys.stdout.flush()  # whose reader may have gone: nothing is confirmed then
    if taken:
        _confirm(instance, taken)
    return 0


def _confirm(instance: Instance, taken: list[Shown]) -> None:
    """Say that they are here. Whoever reads them must act on them even when that cannot be said."""
    try:
        instance.client().post("/v1/inbox/confirm", {"message_ids": [m["message_id"] for m in taken]})
    except DaemonUnavailable as error:
        from sm.cli.display.errors import warning_text

        warning = f"the daemon does not know that these messages were taken: {error.message}"
        click.echo(warning_text(warning), nl=False, err=True)


def _first_to_come(instance: Instance, limit: int, timeout_s: float | None) -> list[Shown]:
    """The messages that come first. Raises WaitTimeout."""
    asked: tuple[str, dict[str, object]] | None = None

    def ask(client: Client, wait_s: float) -> list[Shown] | None:
        # One whose answer was lost is repeated as it was, for it has taken what nobody else gets any more; one
        # that was answered with nothing is over, and the next is another.
        nonlocal asked
        asked = asked or (new_key(), {"limit": limit, "wait_s": wait_s})
        key, body = asked
        found: list[Shown] = client.post("/v1/inbox/take", body, key=key)
        asked = None
        return found or None

    taken = until_answered(instance, ask, timeout_s)
    if taken is None:
        raise WaitTimeout(f"no message came within {timeout_s:g} s")
    return taken


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
