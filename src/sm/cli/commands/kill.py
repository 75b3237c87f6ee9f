"""End agents and everything they started.

Returns when their processes are gone. With several IDs every one is tried. Children of one that is killed
without --tree go to the nearest ancestor that lives (config: child_agents.on_parent_end). The JSON is the session,
its descendants in `killed_too`; with several IDs an array of those that were ended.

\b
Example:
  sm kill engineer-login
"""

import click

from sm.cli.bulk import act_on_each
from sm.cli.call import Call, json_option
from sm.cli.display.sessions import label
from sm.cli.display.text import JsonObject
from sm.cli.options import session_arguments

# The daemon kills one process tree after the other, by force only after a grace time.
_KILL_S = 120.0


@click.command(help=__doc__)
@session_arguments
@click.option("--force", is_flag=True, help="At once, without asking them to end first.")
@click.option("--tree", is_flag=True, help="With all their descendants.")
@json_option
def command(sessions: tuple[str, ...], force: bool, tree: bool, call: Call) -> int:
    return act_on_each(call, sessions, "kill", _killed, {"force": force, "tree": tree}, timeout_s=_KILL_S)


def _killed(first: JsonObject) -> str:
    killed = [first] if first["session_id"] in first["killed"] else []
    return "\n".join(f"Killed {label(session)}" for session in (*killed, *first["killed_too"]))
