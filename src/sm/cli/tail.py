"""`sm tail`: what one session did last."""

import os

import click

from sm.cli.follow import follow
from sm.cli.instance import Instance
from sm.cli.parameters import json_option, session_argument
from sm.cli.render import Shown, event_line, json_text
from sm.cli.screen import say
from sm.client import Client, session_path
from sm.wire import decode, encode

_READ_MAX = 10_000


@click.command()
@session_argument()
@click.option("--lines", "-n", type=click.IntRange(0, _READ_MAX), default=10, show_default=True)
@click.option("--follow", "-f", "following", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@json_option
def command(session: str, lines: int, following: bool, as_json: bool) -> None:
    """Show the last things one session did.

    Its own checkpoints, notes and moves, newest last; `sm events ID` has its children's too, `sm output ID` what
    stands in its terminal. The JSON is an array; with --follow one object per line.

    \b
    Example:
      sm tail engineer-login --follow
    """
    instance = Instance(os.environ)
    client = instance.client()
    session_id = client.get(session_path(session))["session_id"]
    last_seq, own = _own_events(client, session_id, lines)
    if as_json and not following:
        say([json_text(encode(own))])
        return
    say(json_text(encode(event)) if as_json else event_line(event, None) for event in own)
    if not following:
        return
    for text in follow(instance.client(start=False), {"session": session_id}, last_seq):
        event = decode(text)
        if event["session_id"] == session_id:
            click.echo(json_text(text) if as_json else event_line(event, None))


def _own_events(client: Client, session_id: str, lines: int) -> tuple[int, list[Shown]]:
    """The newest seq, and the session's last events: the daemon mixes its children's with them."""
    for limit in (10 * lines + 100, _READ_MAX):
        answer = client.get("/v1/events", {"session": session_id, "limit": min(limit, _READ_MAX)})
        own = [event for event in answer["events"] if event["session_id"] == session_id]
        if len(own) >= lines or len(answer["events"]) < limit:
            break
    return answer["last_seq"], own[max(0, len(own) - lines) :]
