"""`sm kill`: end sessions."""

import os
import sys

import click

from sm.cli.failure import told
from sm.cli.instance import Instance
from sm.cli.parameters import json_option, session_names
from sm.cli.render import label
from sm.cli.screen import say_json
from sm.client import new_key, session_path
from sm.errors import SmError
from sm.wire import decode

# It asks first and forces after a grace time, one process tree after the other.
_KILL_S = 120.0


@click.command()
@click.argument("sessions", metavar="ID...", nargs=-1, required=True, shell_complete=session_names)
@click.option("--force", is_flag=True, help="At once, without asking them to end first.")
@click.option("--tree", is_flag=True, help="With all their descendants.")
@json_option
def command(sessions: tuple[str, ...], force: bool, tree: bool, as_json: bool) -> int:
    """End agents and everything they started.

    Returns when their processes are gone. With several IDs every one is tried. Children of one that is killed
    without --tree go to the nearest ancestor that lives (config: child_agents.on_parent_end). The JSON is the session,
    its descendants in `killed_too`; with several IDs an array of those that were ended.

    \b
    Example:
      sm kill engineer-login
    """
    client = Instance(os.environ).client()
    ended = []
    code = 0
    for session in sessions:
        try:
            path = session_path(session, "/kill")
            text = client.text(
                "POST", path, body={"force": force, "tree": tree}, key=new_key(), timeout_s=_KILL_S
            )
        except SmError as error:
            if len(sessions) == 1:
                raise
            failed = told(error, sys.argv)
            code = code or failed
            continue
        ended.append(text)
        if not as_json:
            first = decode(text)
            for killed in (first, *first["killed_too"]):
                if killed is not first or first["session_id"] in first["killed"]:
                    click.echo(f"Killed {label(killed)}")
    if as_json:
        say_json(ended[0] if len(sessions) == 1 else f"[{','.join(ended)}]")
    return code
