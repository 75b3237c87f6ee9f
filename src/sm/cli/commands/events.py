"""Show events, or follow new ones.

With SESSION: the events of that session and its children. Without SESSION: an agent's own events and those of its
children; from your shell, all events.

The JSON is an array; with --follow, one object per line.

\b
Examples:
  sm events engineer-login --recursive
  sm events --follow --type completed
"""

import click

from sm.cli.call import Call, json_option
from sm.cli.display.output import now
from sm.cli.options import WordChoice, number_option, session_names, workspace_option
from sm.cli.outage import follow
from sm.client.http import session_path
from sm.core.lines import JsonObject, event_line
from sm.core.states import EventType
from sm.errors import UsageError
from sm.wire import encode

_LIMIT_BEFORE_FOLLOWING = 10


@click.command(help=__doc__)
@click.argument("session", metavar="[SESSION]", required=False, shell_complete=session_names)
@click.option(
    "--type",
    "kind",
    type=WordChoice([*map(str, EventType)]),
    metavar="TYPE",
    help=f"Only events of this type: {', '.join(EventType)}.",
)
@number_option("--limit", "-n", help="Maximum number of past events.  [default: 50; with --follow, 10]")
@click.option(
    "--since",
    metavar="WHEN",
    help="Only events after this sequence number (field seq in the JSON), or since this time: a date, yesterday, 22:00 "
    "or an age such as 8h.",
)
@click.option("--recursive", "-r", is_flag=True, help="Include events of all descendants.")
@click.option(
    "--follow", "-f", "following", is_flag=True, help="Print new events as they come, until Ctrl-C."
)
@workspace_option
@json_option
def command(
    session: str | None,
    kind: str | None,
    limit: int | None,
    since: str | None,
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
        raise UsageError("--workspace and SESSION cannot be used together")
    query = {"session": session, "type": kind, "recursive": recursive, "workspace": workspace}
    after = moment = None
    if since is not None:
        from sm.cli.times import is_number, since_time

        if is_number(since):
            after = int(since)
        else:
            moment = since_time(since, client)
    if following and moment is not None:
        first = client.get("/v1/events", {**query, "since_time": moment, "limit": 1})
        after = first["events"][0]["seq"] - 1 if first["events"] else first["last_seq"]
    if not following or after is None:
        if limit is None:
            limit = _LIMIT_BEFORE_FOLLOWING if following else 50
        answer = client.get("/v1/events", {**query, "limit": limit, "since": after, "since_time": moment})
        if not following:
            call.show(encode(answer["events"]), lambda events: [event_line(event, now()) for event in events])
            return
        for event in answer["events"]:
            call.show(encode(event), _line)
        after = answer["last_seq"]
    else:
        client.get("/v1/health")  # starts the daemon, unlike `follow`
    for text in follow(call.instance.client(start=False), query, after):
        call.show(text, _line)


def _line(event: JsonObject) -> list[str]:
    return [event_line(event, now())]
