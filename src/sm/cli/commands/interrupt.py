"""`sm interrupt`: make agents leave off."""

import click

from sm.cli.bulk import act_on_each
from sm.cli.display.sessions import label
from sm.cli.options import json_option, session_names
from sm.wire import decode


@click.command()
@click.argument("sessions", metavar="ID...", nargs=-1, required=True, shell_complete=session_names)
@json_option
def command(sessions: tuple[str, ...], as_json: bool) -> int:
    """Make agents leave off what they do.

    As if you pressed the key for it in their terminal, once: Escape for an agent with turns, which then waits for what
    you tell it, and which takes it for a No where it asks for permission; Ctrl-C for a program, which may end by it. An
    agent that something on its screen keeps from starting is left alone. With several IDs every one is tried; the JSON
    is then an array.

    \b
    Example:
      sm interrupt engineer-login
    """
    return act_on_each(sessions, "interrupt", _interrupted, as_json=as_json)


def _interrupted(text: str) -> str:
    session = decode(text)
    match session["interrupted"]:
        case True:
            return f"Interrupted {label(session)}"
        case False:
            return f"Interrupt sent to {label(session)}; it is still running"
        case _:
            return f"Interrupt sent to {label(session)}"
