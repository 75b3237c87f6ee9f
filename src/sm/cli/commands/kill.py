"""End agents and every process they started.

Sends SIGTERM, and SIGKILL after 5 seconds. The command returns when the processes have ended. Without --tree, the
children of a killed session move to its nearest live ancestor; child_agents.on_parent_end in the configuration can
change that.

If the command fails for one session, it continues with the next one. The exit code is that of the first failure.

The JSON is the session, with its killed descendants in "killed_too". With several sessions, it is an array of the
killed sessions.

\b
Examples:
  sm kill engineer-login
  sm kill engineer-login --tree
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
@click.option("--force", is_flag=True, help="Send SIGKILL immediately, without SIGTERM.")
@click.option("--tree", is_flag=True, help="Kill all descendants too.")
@json_option
def command(sessions: tuple[str, ...], force: bool, tree: bool, call: Call) -> int:
    return act_on_each(call, sessions, "kill", _killed, {"force": force, "tree": tree}, timeout_s=_KILL_S)


def _killed(first: JsonObject) -> str:
    killed = [first] if first["session_id"] in first["killed"] else []
    return "\n".join(f"Killed {label(session)}" for session in (*killed, *first["killed_too"]))
