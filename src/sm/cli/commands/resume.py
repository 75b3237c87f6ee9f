"""End the pause of agents, or an account's limit.

Held messages are delivered. An agent whose turn the pause interrupted gets a message to go on. A session that a spent
budget has paused goes on when the budget is raised: sm budget SESSION --add, or sm approve.

With --all: every paused session; from an agent, only its descendants. With --account, end the pause or the usage limit
of an account in place of sessions: agents whose turn a limit cut off get a message to go on, one agent after the other.
If the limit is not over, the next turn parks the account again. Sessions that were paused with the account go on too.

\b
Examples:
  sm resume engineer-login
  sm resume --all
  sm resume --account claude-1a2b3c4d
"""

import click

from sm.cli.bulk import act_on_each
from sm.cli.call import Call, json_option
from sm.cli.options import account_option, paused_sessions, sessions_argument, workspace_option
from sm.cli.selection import check, running_trees
from sm.client.http import account_path
from sm.core.lines import JsonObject, line
from sm.core.session_lines import label
from sm.errors import UsageError


@click.command(help=__doc__)
@sessions_argument(paused_sessions, required=False)
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="Resume all paused sessions, with --workspace those of one workspace.",
)
@click.option("--tree", is_flag=True, help="Resume all descendants too.")
@workspace_option
@account_option
@json_option
def command(
    sessions: tuple[str, ...], every: bool, tree: bool, workspace: str | None, account: str | None, call: Call
) -> int:
    if account is not None:
        if sessions or every or tree or workspace:
            raise UsageError(
                "--account takes no sessions and no other options", f"sm resume --account {account}"
            )

        def layout(answer: JsonObject) -> list[str]:
            name = line(account)
            return [f"Resumed account {name}" if answer["resumed"] else f"Account {name} is not parked"]

        call.show(call.client.text("POST", account_path(account, "/resume"), body={}), layout)
        return 0
    check(sessions, "--all", every=every, workspace=workspace)
    if every:
        trees = running_trees(call.client, workspace, call.instance.session_id)
        sessions = tuple(session["session_id"] for session in trees)
        if not sessions and not call.as_json:
            click.echo("no sessions to resume", err=True)
            return 0
    return act_on_each(call, sessions, "resume", _resumed, {"tree": tree or every}, chosen=every)


def _resumed(answer: JsonObject) -> str:
    own = [answer] if answer["session_id"] in answer["sessions"] else []
    return "\n".join(f"Resumed {label(session)}" for session in (*own, *answer["too"]))
