"""Sends a text to several sessions, follows the messages and prints their outcome, for `sm send` and `broadcast`."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import click

from sm.cli.display.errors import print_error
from sm.cli.display.text import Shown, json_text, line
from sm.cli.instance import Instance
from sm.cli.options import rate_wait_option
from sm.client.http import Client, new_key
from sm.core.states import OPEN_STATES, MessageState
from sm.errors import IllegalState, SmError, UsageError, WaitTimeout
from sm.wire import decode, encode

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_WAIT_S = 5.0
INTERRUPTED = 130
"""The exit code after Ctrl-C."""
_HELD_S = 20.0
_ARRIVED = (MessageState.SUBMITTED, MessageState.ACKNOWLEDGED)


class DeliveryOptions(NamedTuple):
    """The options that `delivery_options` adds to a command."""

    mode: str
    urgent: bool
    ttl: float | None
    wait: float | None
    no_wait: bool
    rate_wait_s: float

    def wait_s(self) -> float:
        """How long to follow the messages."""
        return 0.0 if self.no_wait else DEFAULT_WAIT_S if self.wait is None else self.wait

    def body(self, text: str) -> dict[str, object]:
        """The message for the daemon, without its recipient. Raises UsageError for options that exclude each other."""
        if self.no_wait and self.wait is not None:
            raise UsageError("--wait and --no-wait exclude each other")
        if self.urgent and self.mode == "idle":
            raise UsageError("--mode idle and --urgent exclude each other")
        return {"text": text, "mode": "urgent" if self.urgent else self.mode, "ttl_s": self.ttl}


def delivery_options(command: Command) -> Command:
    """The options of DeliveryOptions, as keyword arguments of the command."""
    for option in (
        click.option("--mode", type=click.Choice(["auto", "idle"]), default="auto", show_default=True,
                     help="As soon as it takes input, or when it is idle."),
        click.option("--urgent", is_flag=True,
                     help="Before all others. An agent with turns leaves off what it does; what reads lines gets a "
                     "C-c. For who may interrupt it."),
        click.option("--ttl", type=click.FloatRange(min=1, max=86_400), metavar="SECONDS",
                     help="Give up when it was not taken so soon; a day."),
        click.option("--wait", type=click.FloatRange(min=0, max=86_400), metavar="SECONDS",
                     help="Until it is known what became of it: exit 0 arrived, 4 not, 10 not in time."),
        click.option("--no-wait", is_flag=True, help="Return when it is stored."),
    ):  # fmt: skip
        command = option(command)
    return rate_wait_option(command)


def deliver(
    instance: Instance,
    sessions: Sequence[str],
    text: str,
    options: DeliveryOptions,
    *,
    as_json: bool,
    several: bool,
) -> int:
    """Send one text to each session, print the outcome of each message, and return the exit code."""
    body = options.body(text)
    client = instance.client(rate_wait_s=options.rate_wait_s)
    sent: list[Shown] = []
    code = 0
    for session in sessions:
        try:
            sent.append(client.post("/v1/messages", {**body, "to": session}, key=new_key()))
        except SmError as error:
            if not several:
                raise
            failed = print_error(error, sys.argv)
            code = code or failed
    messages, interrupted = _followed_all(client, sent, time.monotonic() + options.wait_s())
    for message in messages:
        try:
            text = outcome(message, must_arrive=interrupted or options.wait is not None)
        except SmError as error:
            if not several and not as_json and not interrupted:
                raise
            failed = error.exit_code if as_json else print_error(error, sys.argv)
            code = code or failed
        else:
            if not as_json:
                named = f"session {message['session_id']}" in text or not several
                click.echo(text if named else f"{message['session_id']}: {text}")
    if as_json:
        click.echo(json_text(encode(messages if several else messages[0])))
    return INTERRUPTED if interrupted else code


def _followed_all(client: Client, sent: Sequence[Shown], deadline: float) -> tuple[list[Shown], bool]:
    """The messages as they are at the deadline, and whether Ctrl-C came before: they are on their way then."""
    messages = list(sent)
    try:
        for place, message in enumerate(sent):
            messages[place] = _followed(client, message, deadline)
    except KeyboardInterrupt:
        return messages, True
    return messages, False


def _followed(client: Client, message: Shown, deadline: float) -> Shown:
    """The message when it is final, or as it is when the time is over."""
    while message["status"] in OPEN_STATES:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            break
        # Whole seconds are what the daemon takes: rounded up, and the last one may take a little longer.
        query: Mapping[str, object] = {"wait_s": int(min(left_s, _HELD_S)) + 1}
        message = decode(client.text("GET", f"/v1/messages/{message['message_id']}", query))
    return message


def outcome(message: Shown, *, must_arrive: bool) -> str:
    """The outcome of a message, in the words of design section 6.

    Raises IllegalState when it did not arrive, WaitTimeout when it `must_arrive` and has not yet.
    """
    number, reason = message["message_id"], line(message["reason"] or "")
    status = message["status"]
    if message.get("request_id"):
        return f"Answered {message['request_id']} of session {message['session_id']}: {reason}"
    if status in _ARRIVED:
        return f"Input sent to session {message['session_id']}"
    if status == MessageState.UNCONFIRMED and not must_arrive:
        return f"typed, not confirmed, message {number}"
    if status not in OPEN_STATES:
        raise IllegalState(f"message {number} to session {message['session_id']} is {line(status)}: {reason}")
    if must_arrive:
        raise WaitTimeout(
            f"message {number} is still {line(status)} ({reason}); it was not taken back",
            f"sm log {message['session_id']}",
        )
    return f"{line(status)} ({reason}), message {number}" if reason else f"{line(status)}, message {number}"
