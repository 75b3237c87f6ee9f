"""Sends a text to sessions, follows the messages and prints their outcome, for `sm send` and `broadcast`."""

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import click

from sm.cli.attached_files import uploaded
from sm.cli.call import Call
from sm.cli.display.errors import Failures
from sm.cli.display.output import print_json
from sm.cli.options import rate_wait_option, seconds_option
from sm.client.http import Client
from sm.core.lines import JsonObject, line
from sm.core.message_lines import outcome
from sm.core.session_lines import label
from sm.core.states import OPEN_STATES, TextUse
from sm.core.timestamps import epoch_s
from sm.errors import AnswersQuestion, IllegalState, SmError, UsageError
from sm.wire import encode

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_WAIT_S = 5.0
INTERRUPTED = 130
"""The exit code after Ctrl-C."""
_HELD_S = 20.0


class DeliveryOptions(NamedTuple):
    """The options that `delivery_options` adds to a command."""

    mode: str
    urgent: bool
    ttl: float | None
    wait: float | None
    no_wait: bool
    rate_wait_s: float

    def wait_s(self) -> float:
        return 0.0 if self.no_wait else DEFAULT_WAIT_S if self.wait is None else self.wait

    def body(self, text: str, use: str | None) -> dict[str, object]:
        """Build the request body without the recipient; `use`: a value of TextUse, or None.

        Raises UsageError for options that exclude each other.
        """
        if self.no_wait and self.wait is not None:
            raise UsageError("--wait and --no-wait cannot be used together")
        if self.urgent and self.mode == "idle":
            raise UsageError("--mode idle and --urgent cannot be used together")
        mode = "urgent" if self.urgent else self.mode
        body: dict[str, object] = {"text": text, "mode": mode, "ttl_s": self.ttl}
        return body if use is None else {**body, "answer": use}


def delivery_options(command: Command) -> Command:
    """Add the options that fill DeliveryOptions. The command gets them as keyword arguments."""
    for option in (  # the last one comes first in the help
        rate_wait_option,
        seconds_option(
            "--ttl", least=1, help="Time after which an undelivered message expires.  [default: one day]"
        ),
        click.option(
            "--mode",
            type=click.Choice(["auto", "idle"]),
            default="auto",
            show_default=True,
            metavar="MODE",
            help="When to deliver: auto (as soon as the agent takes input) or idle (when it is idle).",
        ),
        click.option(
            "--urgent",
            is_flag=True,
            help="Deliver before other messages, and interrupt the agent's current work. Agents that take messages "
            "from their inbox are not interrupted.",
        ),
        click.option("--no-wait", is_flag=True, help="Return as soon as the message is stored."),
        seconds_option("--wait", help="Longest wait for the message to arrive.  [default: 5]"),
    ):
        command = option(command)
    return command


def deliver(
    call: Call,
    sessions: Sequence[str],
    text: str,
    options: DeliveryOptions,
    *,
    several: bool,
    use: TextUse | None = None,
    files: Sequence[tuple[str, bytes]] = (),
) -> int:
    """Send the text to each session, print the outcome of each message, and return the exit code.

    `files`: the paths and the contents of files that each message has.
    """
    body = options.body(text, None if use is None else use.value)
    client = call.instance.client(rate_wait_s=options.rate_wait_s)
    messages: list[JsonObject] = []
    failures = Failures()
    for session in sessions:
        try:
            with uploaded(client, files) as ids:
                attached = {"files": ids} if ids else {}
                messages.append(_send(client, {**body, **attached, "to": session}))
        except SmError as error:
            if not several:
                raise
            failures.add(error)
    deadline = time.monotonic() + options.wait_s()
    interrupted = False
    try:
        for index, message in enumerate(messages):
            if message["session_id"] is None and options.wait is None:
                continue  # the operator reads it later
            followed = _follow(client, message, deadline, settled=options.wait is not None)
            messages[index] = {**message, **followed}
    except KeyboardInterrupt:  # the daemon delivers the messages anyway
        interrupted = True
    for message in messages:
        try:
            shown = outcome(message, must_arrive=interrupted or options.wait is not None)
        except SmError as error:
            if not several and not call.as_json and not interrupted:
                raise
            failures.add(error, is_shown=not call.as_json)
        else:
            if not call.as_json:
                name = label(message)
                named = f"session {name}" in shown or not several
                click.echo(shown if named else f"{name}: {shown}")
    if call.as_json:
        print_json(encode(messages if several else messages[0]))
    return INTERRUPTED if interrupted else failures.code


def follow_message(client: Client, message_id: int, options: DeliveryOptions) -> JsonObject:
    """Return a message when its status is final, or when the time of the options is over."""
    message: JsonObject = client.get(f"/v1/messages/{message_id}")
    deadline = time.monotonic() + options.wait_s()
    return _follow(client, message, deadline, settled=options.wait is not None)


def _send(client: Client, body: dict[str, object]) -> JsonObject:
    """Send a text; if the body says so, ask before the text answers a question. Raises SmError."""
    try:
        sent: JsonObject = client.post("/v1/messages", body)
    except AnswersQuestion as question:
        use = _choose_use(question)
        chosen = {"answer": use.value, "request_id": question.request_id if use is TextUse.ANSWER else None}
        sent = client.post("/v1/messages", {**body, **chosen})
    return sent


def _choose_use(question: AnswersQuestion) -> TextUse:
    """Let a person at a terminal choose between an answer, the default, and a message. Raises IllegalState."""
    words = line(question.message, 400)
    click.echo(f"{words[:1].upper()}{words[1:]}. Send as the answer? [Y/n/m(essage)] ", nl=False, err=True)
    try:
        said = sys.stdin.readline()
    except KeyboardInterrupt:
        said = ""
    if not said.endswith("\n"):  # the end of the input is no answer
        click.echo(err=True)
        raise IllegalState("cancelled")
    match said.strip().lower():
        case "" | "y" | "yes":
            return TextUse.ANSWER
        case "m" | "message":
            return TextUse.MESSAGE
        case _:
            raise IllegalState("cancelled")


def _is_held_for(message: JsonObject, seconds: float) -> bool:
    """True if the message is held longer than that."""
    until = message.get("held_until")  # an older daemon has none
    return until == "" or (until is not None and epoch_s(until) > time.time() + seconds)


def _follow(client: Client, message: JsonObject, deadline: float, *, settled: bool) -> JsonObject:
    """Return the message when its status is final, or at the deadline.

    `settled`: the report of the agent's prompt hook alone does not count. A hook of the user may refuse the prompt.
    """
    query = {"settled": 1} if settled else {}
    while message["status"] in OPEN_STATES or (settled and not message.get("settled", True)):
        left_s = deadline - time.monotonic()
        if left_s <= 0 or _is_held_for(message, left_s):
            break
        # The daemon takes whole seconds. Rounding up may wait up to a second past the deadline.
        wait_s = int(min(left_s, _HELD_S)) + 1
        message = client.get(f"/v1/messages/{message['message_id']}", {"wait_s": wait_s, **query})
    return message
