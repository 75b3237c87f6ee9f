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

import click

from sm.cli.bulk import act_on_each
from sm.cli.call import Call, json_option
from sm.cli.display.errors import print_warnings
from sm.cli.display.text import JsonObject, line
from sm.cli.options import session_arguments


@click.command(help=__doc__)
@session_arguments
@json_option
def command(sessions: tuple[str, ...], call: Call) -> int:
    removed: list[JsonObject] = []

    def done(session: JsonObject) -> str:
        removed.append(session)
        return f"Removed {line(session['removed'])}"

    code = act_on_each(call, sessions, "remove", done)
    for session in removed:
        if session.get("worktree") is not None:
            from sm.cli.worktrees import clean

            warning = clean(session)
            print_warnings([warning] if warning else [])
    return code
