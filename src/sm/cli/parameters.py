"""Arguments and options that several commands share, and the completion of session names."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

COMPLETION_S = 1.0
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._")


def session_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Ids and names that begin with `incomplete`, of the daemon that runs; nothing when none does.

    Names that a shell could take for more than a word are left out.
    """
    from sm.cli.instance import Instance
    from sm.errors import SmError

    try:
        client = Instance(os.environ).client(start=False)
        sessions = client.get("/v1/sessions", timeout_s=COMPLETION_S)
    except (SmError, OSError):
        return []
    names = [
        name
        for session in sessions
        for name in (session["friendly_name"] or session["name"], session["session_id"])
    ]
    return [name for name in names if name.startswith(incomplete) and set(name) <= _SAFE]


def session_argument(*, required: bool = True) -> Callable[[Command], Command]:
    """ID: an id, a unique prefix of one, a name or friendly name."""
    return click.argument("session", metavar="ID", required=required, shell_complete=session_names)


def json_option(command: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, errors too (on stderr).")(
        command
    )


def narrowing_options(command: Command) -> Command:
    """--archived and --search of every command that lists sessions."""
    search = click.option(
        "--search",
        metavar="WORDS",
        help="Only those whose names, notes, results or directory hold all of these.",
    )
    return click.option("--archived", is_flag=True, help="The archived ones too.")(search(command))
