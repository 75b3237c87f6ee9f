"""The commands that list sessions: `sm all`, `children`, `who` and `others`."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from sm.cli.call import Call, json_option
from sm.cli.display.output import now
from sm.cli.display.sessions import flat_rows, session_table, tree_rows
from sm.cli.display.text_table import Table
from sm.cli.options import WordChoice, optional_session, workspace_option
from sm.cli.pages import archived_option, limit_option, list_text, search_option
from sm.client.http import session_path
from sm.core.lines import JsonObject
from sm.core.statuses import Status

_QUERY = ("recursive", "status", "archived", "search", "workspace")
"""Options that are sent to the daemon under the same names."""


def list_command(
    help: str | None,
    path: str,
    rows: Callable[[Sequence[JsonObject]], Iterable[tuple[str, JsonObject]]],
    empty: str,
    *,
    has_status: bool = False,
    of_session: bool = False,
) -> click.Command:
    """Build a command that prints the sessions listed at `path`.

    `has_status` adds --status. `of_session` adds SESSION and --recursive; `path` is then relative to that session.
    """

    def command(*, call: Call, session: str | None = None, **options: Any) -> None:
        if options.get("status") == "all":
            del options["status"]
        query = {name: options[name] for name in _QUERY if name in options}

        def layout(sessions: Sequence[JsonObject]) -> Table:
            # Seed 003 shows the tree of `sm children --recursive` without words: `sm all` has both.
            return session_table(rows(sessions), now(), empty, with_words=not query.get("recursive"))

        listed = session_path(session or "-", path) if of_session else path
        call.show(list_text(call.client, listed, query, options.get("limit")), layout)

    options = [json_option, workspace_option, search_option, archived_option, limit_option]
    options += [_status_option] if has_status else []
    options += [_recursive_option, optional_session] if of_session else []
    for option in options:
        command = option(command)
    return click.command(help=help)(command)


_status_option = click.option(
    "--status",
    type=WordChoice([*map(str, Status), "all"]),
    default="all",
    show_default=True,
    metavar="STATUS",
    help=f"Only sessions with this status: {', '.join(Status)} or all.",
)
_recursive_option = click.option(
    "--recursive", "-r", is_flag=True, help="Include all descendants, as a tree."
)


all_command = list_command(
    """List all sessions as a tree.

    Archived sessions are hidden. Sessions that ended more than a day ago are listed only up to 20 rows; --limit all
    lists all of them. An agent sees only sessions of its workspace.

    \b
    Examples:
      sm all
      sm all --status running
      sm all --limit all
    """,
    "/v1/sessions",
    tree_rows,
    "no sessions",
    has_status=True,
)


children_command = list_command(
    """List the children of a session.

    Without SESSION: an agent's own children; from your shell, the sessions without a parent.

    \b
    Examples:
      sm children engineer-login --recursive
    """,
    "/children",
    tree_rows,
    "no children",
    has_status=True,
    of_session=True,
)


who_command = list_command(
    """List the other children of my parent.

    From your shell: the sessions without a parent.

    \b
    Examples:
      sm who
    """,
    "/v1/who",
    flat_rows,
    "no other sessions",
)


others_command = list_command(
    """List the other sessions of my workspace.

    From your shell: all sessions.

    \b
    Examples:
      sm others
    """,
    "/v1/others",
    flat_rows,
    "no other sessions",
)
