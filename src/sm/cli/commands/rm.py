"""`sm rm`: forget ended sessions for good."""

from typing import Any

import click

from sm.cli.bulk import act_on_each
from sm.cli.display.errors import warning_text
from sm.cli.display.text import line
from sm.cli.options import json_option, session_names
from sm.wire import decode


@click.command()
@click.argument("sessions", metavar="ID...", nargs=-1, required=True, shell_complete=session_names)
@json_option
def command(sessions: tuple[str, ...], as_json: bool) -> int:
    """Remove ended sessions for good, with all that they left.

    What they said, their terminals, their files; their events stay. A git worktree that sm spawn --worktree made goes
    too, and with it the files that git ignores (what was built); it stays when something in it is uncommitted or
    untracked, a commit is in no branch or tag, a rebase, merge or the like is under way, or another session works
    there. Its branch stays while it has commits that are nowhere else. With several IDs every one is tried; the
    JSON is then an array.

    \b
    Example:
      sm rm engineer-login
    """
    removed: list[dict[str, Any]] = []

    def done(text: str) -> str:
        removed.append(decode(text))
        return f"Removed {line(removed[-1]['removed'])}"

    code = act_on_each(sessions, "remove", done, as_json=as_json)
    for session in removed:
        if session.get("worktree") is not None:
            from sm.cli.worktrees import clean

            told = clean(session)
            if told is not None:
                click.echo(warning_text(told), nl=False, err=True)
    return code
