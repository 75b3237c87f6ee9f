"""Builds the commands that list sessions: `sm children`, `all`, `who` and `others`."""

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import click

from sm.cli.display.output import print_json, print_sessions
from sm.cli.display.text import Shown
from sm.cli.instance import Instance
from sm.cli.options import json_option, narrowing_options, session_argument
from sm.client.http import session_path
from sm.core.statuses import Status
from sm.wire import decode

_QUERY = ("recursive", "status", "archived", "search", "workspace")
"""The options that go to the daemon under their own names."""


def flat(sessions: Sequence[Shown]) -> list[tuple[str, Shown]]:
    """Sessions as rows without indentation."""
    return [("", session) for session in sessions]


class SessionList(NamedTuple):
    """One list of sessions: the differences between the commands."""

    help: str
    path: str
    """Its route. With `of_session` the rest of the route below one session."""
    rows: Callable[[Sequence[Shown]], list[tuple[str, Shown]]]
    empty: str
    has_status: bool = False
    """Whether the command has --status."""
    of_session: bool = False
    """Whether the command takes the ID of a session, and --recursive."""


def list_command(sessions: SessionList) -> click.Command:
    """The command that prints this list."""

    def command(*, as_json: bool, session: str | None = None, **options: Any) -> None:
        path = session_path(session or "-", sessions.path) if sessions.of_session else sessions.path
        if options.get("status") == "all":
            del options["status"]
        query = {name: options[name] for name in _QUERY if name in options}
        text = Instance(os.environ).client().text("GET", path, query)
        if as_json:
            print_json(text)
        else:
            # Seed 003 shows the tree of `sm children --recursive` without words: `sm all` has both.
            with_words = not options.get("recursive")
            print_sessions(sessions.rows(decode(text)), sessions.empty, with_words=with_words)

    command = narrowing_options(json_option(command))
    if sessions.has_status:
        command = _status_option(command)
    if sessions.of_session:
        command = session_argument(required=False)(_recursive_option(command))
    return click.command(help=sessions.help)(command)


_status_option = click.option(
    "--status", type=click.Choice([*map(str, Status), "all"]), help="Only those with this status."
)
_recursive_option = click.option(
    "--recursive", "-r", is_flag=True, help="Grandchildren and all below, as a tree."
)
