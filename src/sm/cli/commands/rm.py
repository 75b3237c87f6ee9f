"""Delete ended sessions and their files.

Deletes a session's messages, terminal and files; its events are kept.

A git worktree from sm spawn --worktree is deleted too, including files that git ignores. The worktree is kept if it
has uncommitted or untracked files, a commit that is in no branch or tag, or an unfinished rebase, merge or bisect.
It is also kept if another session works in it. Its branch is kept if it has commits that exist nowhere else.

If the command fails for one session, it continues with the next one. The exit code is that of the first failure.
With several sessions, the JSON is an array.

\b
Examples:
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
