"""End agents and every process they started.

Sends SIGTERM, and SIGKILL after 5 seconds. The command returns when the processes have ended. Without --tree, the
children of a killed session move to its nearest live ancestor; child_agents.on_parent_end in the configuration can
change that.

With --all: every session whose process runs; from an agent, only its descendants. On a terminal, the command asks
before.

If the command fails for one session, it continues with the next one. The exit code is that of the first failure.

The JSON is the session, with its killed descendants in "killed_too". With several sessions, it is an array of the
killed sessions. With --all, it is always an array of the topmost killed sessions.

\b
Examples:
  sm kill engineer-login
  sm kill engineer-login --tree
  sm kill --all --workspace shop
"""

import click

from sm.cli.bulk import act_on_each
from sm.cli.call import Call, json_option
from sm.cli.options import running_sessions, sessions_argument, workspace_option
from sm.cli.selection import check, confirm, running_trees, yes_option
from sm.core.lines import JsonObject
from sm.core.session_lines import label

# The daemon kills one process tree after the other, by force only after a grace time.
_KILL_S = 120.0


@click.command(help=__doc__)
@sessions_argument(running_sessions, required=False)
@click.option(
    "--all", "every", is_flag=True, help="Kill all sessions, with --workspace those of one workspace."
)
@click.option("--force", is_flag=True, help="Send SIGKILL immediately, without SIGTERM.")
@click.option("--tree", is_flag=True, help="Kill all descendants too.")
@workspace_option
@yes_option
@json_option
def command(
    sessions: tuple[str, ...],
    every: bool,
    force: bool,
    tree: bool,
    workspace: str | None,
    yes: bool,
    call: Call,
) -> int:
    check(sessions, "--all", every=every, workspace=workspace)
    if every:
        trees = running_trees(call.client, workspace, call.instance.session_id)
        if not trees and not call.as_json:
            click.echo("no sessions to kill", err=True)
            return 0
        confirm("Kill", trees, yes=yes)
        sessions, tree = tuple(session["session_id"] for session in trees), True
    body = {"force": force, "tree": tree}
    return act_on_each(call, sessions, "kill", _killed, body, timeout_s=_KILL_S, chosen=every)


def _killed(first: JsonObject) -> str:
    killed = [first] if first["session_id"] in first["killed"] else []
    return "\n".join(f"Killed {label(session)}" for session in (*killed, *first["killed_too"]))
