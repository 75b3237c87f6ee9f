"""Make a session of an agent that runs in a tmux pane of yours.

PANE is what tmux calls it: a pane id (%5; tmux display-message -p '#{pane_id}' prints that of your pane), or
another target. The agent goes on undisturbed and stays where it is. It has no hooks of sm: its status is what it
publishes itself. Killing the session ends the agent, never the shell around it; sm restore then gives it a terminal
of its own, and the model, permissions and directories that it was started with.

\b
Example:
  sm adopt %5 --name login
"""

import click

from sm.cli.call import Call, json_option
from sm.cli.display.sessions import label
from sm.cli.display.text import line


@click.command(help=__doc__)
@click.argument("pane", metavar="PANE")
@click.option("--name", metavar="NAME", help="A friendly name for the session.")
@click.option("--type", "agent_type", metavar="AGENT_TYPE", help="The role that it has from now on.")
@click.option("--trust", metavar="LEVEL", help="sandboxed or direct; it runs on this host either way.")
@json_option
def command(pane: str, name: str | None, agent_type: str | None, trust: str | None, call: Call) -> None:
    body = {"pane": pane, "name": name, "agent_type": agent_type, "trust": trust}
    call.post("/v1/adopt", lambda session: [f"Adopted {label(session)} from pane {line(pane)}"], body)
