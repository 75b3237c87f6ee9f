"""`sm adopt`: an agent that a person has started becomes a session."""

import os

import click

from sm.cli.display.errors import warning_text
from sm.cli.display.output import print_json
from sm.cli.display.sessions import label
from sm.cli.display.text import line
from sm.cli.instance import Instance
from sm.cli.options import json_option
from sm.client.http import new_key
from sm.wire import decode


@click.command()
@click.argument("pane", metavar="PANE")
@click.option("--name", metavar="NAME", help="A friendly name for the session.")
@click.option("--type", "agent_type", metavar="AGENT_TYPE", help="The role that it has from now on.")
@click.option("--trust", metavar="LEVEL", help="sandboxed or direct; it runs on this host either way.")
@json_option
def command(pane: str, name: str | None, agent_type: str | None, trust: str | None, as_json: bool) -> None:
    """Make a session of an agent that runs in a tmux pane of yours.

    PANE is what tmux calls it: a pane id (%5; tmux display-message -p '#{pane_id}' prints that of your pane), or
    another target. The agent goes on undisturbed and stays where it is. It has no hooks of sm: its status is what it
    publishes itself. Killing the session ends the agent, never the shell around it; sm restore then gives it a terminal
    of its own, and the model, permissions and directories that it was started with.

    \b
    Example:
      sm adopt %5 --name login
    """
    body = {"pane": pane, "name": name, "agent_type": agent_type, "trust": trust}
    text = Instance(os.environ).client().text("POST", "/v1/adopt", body=body, key=new_key())
    session = decode(text)
    for warning in session.get("warnings") or []:
        click.echo(warning_text(warning), nl=False, err=True)
    if as_json:
        print_json(text)
    else:
        click.echo(f"Adopted {label(session)} from pane {line(pane)}")
