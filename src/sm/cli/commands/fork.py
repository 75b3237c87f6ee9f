"""Start a second agent with all that another one knows.

The new session goes on with a copy of the conversation, in the same directory and below the same parent; the
other one is left as it is, whether it runs or has ended. A program has no conversation and cannot be forked.

\b
Example:
  sm fork engineer-login --name login-other-way
"""

import click

from sm.cli.call import Call, json_option
from sm.cli.display.sessions import label
from sm.cli.display.text import line
from sm.cli.options import session_argument
from sm.client.http import session_path


@click.command(help=__doc__)
@session_argument
@click.option("--name", metavar="NAME", help="A friendly name for the new session.")
@json_option
def command(session: str, name: str | None, call: Call) -> None:
    call.post(
        session_path(session, "/fork"),
        lambda forked: [f"Forked {label(forked)} in tmux session {line(forked['tmux_session'])}"],
        {"name": name},
    )
