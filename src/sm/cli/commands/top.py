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

import gc
import os
import sys

import click

from sm.cli.installation import TEXTUAL, install_command
from sm.cli.instance import Instance
from sm.errors import NotPermitted, UsageError


@click.command(help=__doc__)
def command() -> None:
    instance = Instance(os.environ)
    if instance.session_id is not None:
        raise NotPermitted("sm top is for people, not for agents", "to list sessions: sm ls")
    try:
        from sm.cli.tui.app import TopApp
        from sm.cli.tui.ending import end_at_last
        from sm.cli.tui.kept import KeptChoices
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "textual":
            raise
        raise UsageError(
            "sm top needs the package textual, which is not installed here",
            f"install it: {install_command(TEXTUAL)}",
        ) from None
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("sm top needs a terminal", "to list sessions: sm ls")
    instance.client().get("/v1/health")  # starts the daemon, or says why that fails
    # The modules and most rows stay until the end, and rows form no cycles. To look through them at each collection
    # takes a tenth of the time of the view.
    gc.freeze()
    app = TopApp(instance.client(start=False), kept=KeptChoices(instance.paths.views), started=gc.freeze)
    app.run()
    end_at_last(app.return_code or 0)
    if app.return_code:
        raise SystemExit(app.return_code)
