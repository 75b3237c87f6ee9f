"""End agents and every process they started.

Sends SIGTERM, and SIGKILL after 5 seconds. The command returns when the processes have ended, also those that left the
process tree of the agent. It fails if one is left. Without --tree, the children of a killed session move to its nearest
live ancestor; child_agents.on_parent_end in the configuration can change that.

With --orphans: the processes that agents left behind when they crashed or exited; from an agent, only those of its
descendants. SESSION ends those of one ended session.

With --all: every session whose process runs; from an agent, only its descendants. On a terminal, the command asks
before.

If the command fails for one session, it continues with the next one. The exit code is that of the first failure.

The JSON is the session, with its killed descendants in "killed_too". With several sessions, it is an array of the
killed sessions. With --all, it is always an array of the topmost killed sessions. With --orphans, it is an object with
the processes in "ended" and "left".

\b
Examples:
  sm kill engineer-login
  sm kill engineer-login --tree
  sm kill --all --workspace shop
  sm kill --orphans
"""

import click

from sm.cli.bulk import act_on_each
from sm.cli.call import Call, json_option
from sm.cli.display.overview import orphan_lines, process_count
from sm.cli.options import running_sessions, sessions_argument, workspace_option
from sm.cli.selection import ask, check, confirm, running_trees, yes_option
from sm.client.http import decode_answer, new_key
from sm.core.lines import JsonObject
from sm.core.session_lines import label
from sm.errors import ExternalError, NotPermitted, UsageError

# The daemon kills one process tree after the other, by force only after a grace time.
_KILL_S = 120.0


@click.command(help=__doc__)
@sessions_argument(running_sessions, required=False)
@click.option(
    "--all", "every", is_flag=True, help="Kill all sessions, with --workspace those of one workspace."
)
@click.option("--orphans", is_flag=True, help="End the processes that ended sessions left behind.")
@click.option("--force", is_flag=True, help="Send SIGKILL immediately, without SIGTERM.")
@click.option("--tree", is_flag=True, help="Kill all descendants too.")
@workspace_option
@yes_option
@json_option
def command(
    sessions: tuple[str, ...],
    every: bool,
    orphans: bool,
    force: bool,
    tree: bool,
    workspace: str | None,
    yes: bool,
    call: Call,
) -> int:
    if orphans:
        if sessions or every or tree or workspace is not None:
            raise UsageError("--orphans cannot be used with SESSION, --all, --tree or --workspace")
        return _kill_orphans(call, force=force, yes=yes)
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


def _kill_orphans(call: Call, *, force: bool, yes: bool) -> int:
    found = call.client.get("/v1/orphans")
    if found:
        click.echo("\n".join(orphan_lines(found)), err=True)
        ask(f"End {process_count(len(found))}?", yes=yes or call.as_json)
    elif not call.as_json:
        click.echo("no orphan processes", err=True)
        return 0
    text = call.client.text(
        "POST", "/v1/orphans/kill", body={"force": force}, key=new_key(), timeout_s=_KILL_S
    )
    call.show(text, lambda done: [f"Ended {text}" for text in orphan_lines(done["ended"])])
    if left := decode_answer(text)["left"]:
        pids = ",".join(str(orphan["pid"]) for orphan in left)
        raise ExternalError(f"process {pids} did not end", f"ps -o pid,user,stat,args -p {pids}")
    shown = {(orphan["session_id"], orphan["pid"]) for orphan in found}
    kept = [
        orphan for orphan in call.client.get("/v1/orphans") if (orphan["session_id"], orphan["pid"]) in shown
    ]
    if kept:
        pids = ",".join(str(orphan["pid"]) for orphan in kept)
        raise NotPermitted(
            f"process {pids} was not ended: its session is not below yours", "ask the operator"
        )
    return 0


def _killed(first: JsonObject) -> str:
    killed = [first] if first["session_id"] in first["killed"] else []
    return "\n".join(f"Killed {label(session)}" for session in (*killed, *first["killed_too"]))
