"""`sm events`: what happened."""

import os

import click

from sm.cli.display.output import print_lines
from sm.cli.display.text import event_line, json_text
from sm.cli.event_stream import follow
from sm.cli.instance import Instance
from sm.cli.options import json_option, session_names, workspace_option
from sm.client.http import session_path
from sm.core.states import EventType
from sm.errors import UsageError
from sm.wire import decode, encode

_BEFORE_FOLLOWING = 10


@click.command()
@click.argument("session", metavar="[ID]", required=False, shell_complete=session_names)
@click.option(
    "--type",
    "kind",
    type=click.Choice([*map(str, EventType)]),
    metavar="TYPE",
    help="Only events of this type.",
)
@click.option("--limit", "-n", type=click.IntRange(0, 10_000), help="How many; 50, before following 10.")
@click.option("--since", type=click.IntRange(min=0), metavar="SEQ", help="Those after this event's `seq`.")
@click.option("--recursive", "-r", is_flag=True, help="With ID: of all its descendants too.")
@click.option("--follow", "-f", "following", is_flag=True, help="Go on with those that come, until Ctrl-C.")
@workspace_option
@json_option
def command(
    session: str | None,
    kind: str | None,
    limit: int | None,
    since: int | None,
    recursive: bool,
    following: bool,
    workspace: str | None,
    as_json: bool,
) -> None:
    """Show or follow what happened.

    With ID: to that session and its children. The JSON is an array; with --follow one object per line.

    \b
    Example:
      sm events --follow --type completed
    """
    instance = Instance(os.environ)
    client = instance.client()
    if session is not None and following:
        session = client.get(session_path(session))[
            "session_id"
        ]  # a name may pass to another session meanwhile
    if session is not None and workspace is not None:
        raise UsageError("--workspace is for all sessions, and an ID names one")
    query = {"session": session, "type": kind, "recursive": recursive, "workspace": workspace}
    if not following or since is None:
        if limit is None:
            limit = _BEFORE_FOLLOWING if following else 50
        answer = client.get("/v1/events", {**query, "limit": limit, "since": since})
        if not following:
            events = answer["events"]
            print_lines(
                [json_text(encode(events))] if as_json else [event_line(event, None) for event in events]
            )
            return
        for event in answer["events"]:
            click.echo(json_text(encode(event)) if as_json else event_line(event, None))
        since = answer["last_seq"]
    else:
        client.get("/v1/health")  # starts the daemon, which following alone never does
    for text in follow(instance.client(start=False), query, since):
        click.echo(json_text(text) if as_json else event_line(decode(text), None))
