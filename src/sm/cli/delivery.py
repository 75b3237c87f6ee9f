"""What `sm send` and `sm broadcast` have in common: the text, its way to several sessions, and what is said of it."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from sm.cli.display.errors import told
from sm.cli.display.text import Shown, json_text, line
from sm.cli.instance import Instance
from sm.cli.options import rate_wait_option
from sm.client.http import Client, new_key
from sm.core.states import OPEN_STATES, MessageState
from sm.errors import IllegalState, SmError, UsageError, WaitTimeout
from sm.wire import decode, encode

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_WAIT_S = 5.0
LEFT_OFF = 130
"""How a command ends that got a Ctrl-C."""
_HELD_S = 20.0
_ARRIVED = (MessageState.SUBMITTED, MessageState.ACKNOWLEDGED)


def delivery_options(command: Command) -> Command:
    for option in (
        click.option("--mode", type=click.Choice(["auto", "idle"]), default="auto", show_default=True,
                     help="As soon as it takes input, or when it is idle."),
        click.option("--urgent", is_flag=True,
                     help="Before all others. claude leaves off what it does; what reads lines gets a C-c. For who may "
                     "interrupt it."),
        click.option("--ttl", type=click.FloatRange(min=1, max=86_400), metavar="SECONDS",
                     help="Give up when it was not taken so soon; a day."),
        click.option("--wait", type=click.FloatRange(min=0, max=86_400), metavar="SECONDS",
                     help="Until it is known what became of it: exit 0 arrived, 4 not, 10 not in time."),
        click.option("--no-wait", is_flag=True, help="Return when it is stored."),
    ):  # fmt: skip
        command = option(command)
    return rate_wait_option(command)


def words(text: str) -> str:
    """The text itself; `-` is what stdin holds, less its last newline. Raises InvalidText."""
    if text != "-":
        return text
    from sm.cli.stdin import text_of_stdin
    from sm.core.text import MESSAGE_MAX

    return text_of_stdin("message", MESSAGE_MAX).removesuffix("\n")


def deliver(
    instance: Instance,
    sessions: Sequence[str],
    text: str,
    *,
    urgent: bool,
    mode: str,
    ttl: float | None,
    wait: float | None,
    no_wait: bool,
    rate_wait_s: float,
    as_json: bool,
    several: bool,
) -> int:
    """Send one text to each session, say what became of it, and return the exit code."""
    if no_wait and wait is not None:
        raise UsageError("--wait and --no-wait exclude each other")
    if urgent and mode == "idle":
        raise UsageError("--mode idle and --urgent exclude each other")
    body = {"text": text, "mode": "urgent" if urgent else mode, "ttl_s": ttl}
    client = instance.client(rate_wait_s=rate_wait_s)
    sent: list[Shown] = []
    code = 0
    for session in sessions:
        try:
            sent.append(client.post("/v1/messages", {**body, "to": session}, key=new_key()))
        except SmError as error:
            if not several:
                raise
            failed = told(error, sys.argv)
            code = code or failed
    deadline = time.monotonic() + (0.0 if no_wait else DEFAULT_WAIT_S if wait is None else wait)
    final = list(sent)
    left_off = False
    try:
        for place, message in enumerate(sent):
            final[place] = _followed(client, message, deadline)
    except KeyboardInterrupt:  # nobody waits any more; but the messages are on their way, and that is said
        left_off = True
    for message in final:
        try:
            outcome = said(message, must_arrive=left_off or wait is not None)
        except SmError as error:
            if not several and not as_json and not left_off:
                raise
            failed = error.exit_code if as_json else told(error, sys.argv)
            code = code or failed
        else:
            if not as_json:
                named = f"session {message['session_id']}" in outcome or not several
                click.echo(outcome if named else f"{message['session_id']}: {outcome}")
    if as_json:
        click.echo(json_text(encode(final if several else final[0])))
    return LEFT_OFF if left_off else code


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


def said(message: Shown, *, must_arrive: bool) -> str:
    """What became of a message, in the words of design section 6.

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
