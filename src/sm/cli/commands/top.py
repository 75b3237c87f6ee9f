"""Watch and direct agents in a full-screen view.

At the top is what needs you: open requests, messages that did not arrive, stale sessions. Below is the tree of all
sessions, with the status, its age, cost and current task. The view updates by itself. Every action has one key, and
press ? for the list of keys. Quitting changes nothing: the agents keep running.

The command is for people: an agent cannot run it.

\b
Filter words (press /):
  status:waiting  ws:shop  type:engineer  cost:>1  older:10min, and any words

\b
Exit codes:
  0  you left the view
  2  there is no terminal, or the package textual is not installed
  5  an agent ran the command

\b
Examples:
  sm top
"""

import os

import click

from sm.cli.tui.start import run


@click.command(help=__doc__)
def command() -> int:
    return run(os.environ)
