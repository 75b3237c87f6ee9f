"""Give a session another name.

NAME is unique among live sessions, and sm adds the agent type: login becomes engineer-login. The ID and the tmux
session keep their names, and so do a worktree and its branch. The agent is not told.

\b
Examples:
  sm rename engineer-login signup
"""

import click

from sm.cli.call import Call, json_option
from sm.cli.options import session_argument
from sm.client.http import session_path
from sm.core.session_lines import name_and_id


@click.command(help=__doc__)
@session_argument
@click.argument("name")
@json_option
def command(session: str, name: str, call: Call) -> None:
    call.post(
        session_path(session, "/rename"),
        lambda renamed: [f"Renamed to {name_and_id(renamed)}"],
        {"name": name},
    )
