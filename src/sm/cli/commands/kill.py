"""`sm kill`: end sessions."""

import click

from sm.cli.bulk import act_on_each
from sm.cli.display.sessions import label
from sm.cli.options import json_option, session_names
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
    body = {"force": force, "tree": tree}
    return act_on_each(sessions, "kill", _killed, as_json=as_json, body=body, timeout_s=_KILL_S)


def _killed(text: str) -> str:
    first = decode(text)
    killed = [first] if first["session_id"] in first["killed"] else []
    return "\n".join(f"Killed {label(session)}" for session in (*killed, *first["killed_too"]))
