"""Show or follow what happened.

With ID: to that session and its children. The JSON is an array; with --follow one object per line.

\b
Example:
  sm events --follow --type completed
"""

import click

from sm.cli.call import Call, json_option
from sm.cli.display.text import JsonObject, event_line
from sm.cli.options import session_names, workspace_option
from sm.cli.outage import follow
from sm.client.http import session_path
from sm.core.states import EventType
from sm.errors import UsageError
from sm.wire import encode

_LIMIT_BEFORE_FOLLOWING = 10


@click.command(help=__doc__)
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
    call: Call,
) -> None:
    client = call.client
    if session is not None and following:
        # Another session may take over the name while this command runs.
        session = client.get(session_path(session))["session_id"]
    if session is not None and workspace is not None:
        raise UsageError("--workspace is for all sessions, and an ID names one")
    query = {"session": session, "type": kind, "recursive": recursive, "workspace": workspace}
    if not following or since is None:
        if limit is None:
            limit = _LIMIT_BEFORE_FOLLOWING if following else 50
        answer = client.get("/v1/events", {**query, "limit": limit, "since": since})
        if not following:
            call.show(encode(answer["events"]), lambda events: [event_line(event, None) for event in events])
            return
        for event in answer["events"]:
            call.show(encode(event), _line)
        since = answer["last_seq"]
    else:
        client.get("/v1/health")  # starts the daemon, unlike `follow`
    for text in follow(call.instance.client(start=False), query, since):
        call.show(text, _line)


def _line(event: JsonObject) -> list[str]:
    return [event_line(event, None)]
