"""Show the messages in your inbox.

An agent's inbox holds the messages that were sent to the agent. From your shell, this command shows your inbox: the
notifications about agents without a parent, and the messages that agents send to you (sm send operator). Urgent
messages come first, then the oldest. Without --take the messages stay in the inbox.

The JSON is an array of messages.

\b
Exit codes with --wait:
  0   at least one message arrived
  10  timed out

\b
Examples:
  sm inbox
  sm inbox --read 57
  sm inbox --take --wait --timeout 600
"""

import sys
from collections.abc import Mapping

import click

from sm.cli.call import Call, json_option
from sm.cli.options import number_option, seconds_option
from sm.cli.outage import until_answered
from sm.client.http import Client, new_key
from sm.core.lines import JsonObject, plain_line
from sm.errors import DaemonUnavailable, LimitReached, StorageFull, UsageError, WaitTimeout

_CONFIRM = "/v1/inbox/confirm"


@click.command(help=__doc__)
@click.option("--take", is_flag=True, help="Remove the messages from the inbox and mark them as submitted.")
@click.option(
    "--read",
    type=click.IntRange(1),
    multiple=True,
    metavar="MESSAGE",
    help="Mark this message as read, and show no others. Repeatable.",
)
@click.option("--wait", is_flag=True, help="Wait for a message. Needs --take.")
@seconds_option("--timeout", help="Longest wait. Needs --wait.  [default: no limit]")
@number_option("--limit", "-n", least=1, most=50, default=50, help="Maximum number of messages.")
@json_option
def command(
    take: bool, read: tuple[int, ...], wait: bool, timeout: float | None, limit: int, call: Call
) -> None:
    if timeout is not None and not wait:
        raise UsageError("--timeout needs --wait", "sm inbox --take --wait --timeout 60")
    if wait and not take:
        raise UsageError("--wait needs --take", "sm inbox --take --wait")
    if read:
        if take:
            raise UsageError("--read and --take cannot be used together")
        call.show_value(call.client.post(_CONFIRM, {"message_ids": list(read)}), _format_read)
        return
    if not take:
        call.show_value(call.client.get("/v1/inbox", {"limit": limit}), _format)
        return
    if wait:
        taken = _wait_for_messages(call, limit, timeout)
    else:
        taken = call.client.post("/v1/inbox/take", {"limit": limit, "wait_s": None})
    call.show_value(taken, _format)
    sys.stdout.flush()  # Raises when the reader has closed stdout: nothing is confirmed then.
    if taken:
        _confirm(call, taken)


def _confirm(call: Call, taken: list[JsonObject]) -> None:
    """Confirm the printed messages. The reader must act on them even without a confirmation."""
    body, key = {"message_ids": [m["message_id"] for m in taken]}, new_key()
    try:
        if call.instance.session_id is None or not _confirm_as_session(call, body, key):
            call.client.post(_CONFIRM, body, key=key)
    except DaemonUnavailable as error:
        from sm.cli.display.errors import print_warnings

        print_warnings([f"could not confirm these messages to the daemon: {error.message}"])


def _confirm_as_session(call: Call, body: Mapping[str, object], key: str) -> bool:
    """Confirm through the daemon or the spool. False if the spool accepts no report: then only a wait may help."""
    from sm.cli.report import post_or_spool

    try:
        post_or_spool(call.instance, "confirm", _CONFIRM, body, key)
    except (DaemonUnavailable, LimitReached, StorageFull):
        return False
    return True


def _wait_for_messages(call: Call, limit: int, timeout_s: float | None) -> list[JsonObject]:
    """Wait for messages and take them. Raises WaitTimeout."""
    pending: tuple[str, dict[str, object]] | None = None

    def ask(client: Client, wait_s: float) -> list[JsonObject] | None:
        # A request without an answer may have taken messages, so it is retried with the same key and body. After an
        # empty answer the next request is a new one.
        nonlocal pending
        pending = pending or (new_key(), {"limit": limit, "wait_s": wait_s})
        key, body = pending
        messages: list[JsonObject] = client.post("/v1/inbox/take", body, key=key)
        pending = None
        return messages or None

    taken = until_answered(call.instance, ask, timeout_s)
    if taken is None:
        raise WaitTimeout(f"no message arrived within {timeout_s:g} s")
    return taken


def _format_read(messages: list[JsonObject]) -> list[str]:
    return [f"Message {message['message_id']} is read" for message in messages]


def _format(messages: list[JsonObject]) -> list[str]:
    """Format messages with their headers, a blank line between, without control characters."""
    if not messages:
        click.echo("no messages", err=True)
    texts = "\n\n".join(message["shown"] for message in messages)
    return [plain_line(text) for text in texts.split("\n")]
