"""Start an agent from a copy of another agent's conversation.

The new agent has the same conversation so far, the same directory and the same parent (or the nearest live
ancestor). The other agent does not change. It may be running or ended. A program that is not a coding agent has
no conversation and cannot be forked.

The command waits until the new agent has accepted the conversation. As with sm restore, claude gets a transcript back
that it has deleted, and the command says if a part of the conversation is lost.

\b
Examples:
  sm fork engineer-login --name login-other-way
"""

import click

from sm.cli.call import Call, json_option
from sm.cli.options import session_argument
from sm.client.http import START_TIMEOUT_S, session_path
from sm.core.lines import line
from sm.core.session_lines import name_and_id


@click.command(help=__doc__)
@session_argument
@click.option("--name", metavar="NAME", help="Name of the new session, unique among live sessions.")
@json_option
def command(session: str, name: str | None, call: Call) -> None:
    call.post(
        session_path(session, "/fork"),
        lambda forked: [f"Forked {name_and_id(forked)} in tmux session {line(forked['tmux_session'])}"],
        {"name": name},
        timeout_s=START_TIMEOUT_S,
    )
