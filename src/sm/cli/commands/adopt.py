"""Manage an agent you started yourself in a tmux pane.

PANE is a tmux pane ID such as %5, or another tmux target. This command prints the ID of the current pane: tmux
display-message -p '#{pane_id}'

The agent keeps running in its pane. sm installs no hooks in the agent, so its status comes only from the agent's own
files and its screen. sm kill ends the agent but not the shell around it. After that, sm restore starts it in a new
terminal, with the model, permissions and directories that it had. Agents cannot run this command.

\b
Examples:
  sm adopt %5 --name login
"""

import click

from sm.cli.call import Call, json_option
from sm.core.lines import line
from sm.core.session_lines import name_and_id


@click.command(help=__doc__)
@click.argument("pane", metavar="PANE")
@click.option("--name", metavar="NAME", help="Name of the session, unique among live sessions.")
@click.option(
    "--type",
    "agent_type",
    metavar="AGENT_TYPE",
    help="Agent type of the session.  [default: general-purpose, if configured]",
)
@click.option(
    "--trust",
    metavar="LEVEL",
    help="Trust level: sandboxed or direct. The agent itself runs directly on this host.  [default: direct]",
)
@json_option
def command(pane: str, name: str | None, agent_type: str | None, trust: str | None, call: Call) -> None:
    body = {"pane": pane, "name": name, "agent_type": agent_type, "trust": trust}
    call.post("/v1/adopt", lambda session: [f"Adopted {name_and_id(session)} from pane {line(pane)}"], body)
