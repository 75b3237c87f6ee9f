"""Send a message to all your agents.

From your shell the message goes to every live agent, with --workspace to those of one workspace. On a terminal, the
command asks before. From an agent it goes to its live children, without a question. If TEXT is -, it is read from
stdin. The command waits up to 5 seconds for the messages to arrive. A broadcast answers no question: open
questions stay open.

The JSON is an array of messages.

\b
Exit codes:
  0   every message arrived; without --wait, also if some are still queued
  4   a message failed or expired; with --wait, also if it is unconfirmed
  10  timed out (only with --wait); other messages stay queued

\b
Examples:
  sm broadcast "The API changed: pull before you continue" --workspace shop
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import click

from sm.cli.call import Call, json_option
from sm.cli.delivery import DeliveryOptions, deliver, delivery_options
from sm.cli.options import TextCommand, workspace_option
from sm.cli.selection import ask, yes_option
from sm.cli.stdin import message_text
from sm.core.lines import JsonObject, line, plural
from sm.core.states import TextUse


@click.command(help=__doc__, cls=TextCommand)
@click.argument("text")
@click.option("--recursive", "-r", is_flag=True, help="From an agent: include all its descendants.")
@workspace_option
@yes_option
@delivery_options
@json_option
def command(text: str, recursive: bool, workspace: str | None, yes: bool, call: Call, **options: Any) -> int:
    audience = call.client.get("/v1/audience", {"recursive": recursive, "workspace": workspace})
    if not audience and not call.as_json:
        click.echo("no sessions to send the message to", err=True)
        return 0
    text = message_text(text)
    ask(f"Send to {_described(audience)}?", yes=yes or call.instance.session_id is not None)
    recipients = [session["session_id"] for session in audience]
    return deliver(call, recipients, text, DeliveryOptions(**options), several=True, use=TextUse.MESSAGE)


def _described(sessions: Sequence[JsonObject]) -> str:
    """`3 agents: 2 of workspace shop, 1 without a workspace`."""
    counts = Counter(session["workspace"] for session in sessions)
    parts = [
        f"{count} {f'of workspace {line(slug)}' if slug else 'without a workspace'}"
        for slug, count in sorted(counts.items(), key=lambda item: (-item[1], item[0] or ""))
    ]
    return f"{plural(len(sessions), 'agent')}: {', '.join(parts)}"
