"""Delete ended sessions and their files.

Deletes a session's messages, terminal and files; its events are kept.

A git worktree from sm spawn --worktree is deleted too, including files that git ignores. The worktree is kept if it
has uncommitted or untracked files, a commit that is in no branch or tag, or an unfinished rebase, merge or bisect.
It is also kept if another session works in it. Its branch is kept if it has commits that exist nowhere else. sm diff
shows this work and sm merge merges it; --discard deletes it.

With --ended: every ended session that is not archived; from an agent, only its descendants. A session whose process
still runs is skipped. On a terminal, the command asks before. sm prune chooses by age.

If the command fails for one session, it continues with the next one. The exit code is that of the first failure.
With several sessions or --ended, the JSON is an array.

\b
Examples:
  sm rm engineer-login
  sm rm --ended --workspace shop
"""

from collections.abc import Sequence

import click

from sm.cli.bulk import act_on_each
from sm.cli.call import Call, json_option
from sm.cli.display.errors import print_warnings
from sm.cli.display.output import now
from sm.cli.options import ended_sessions, sessions_argument, workspace_option
from sm.cli.selection import check, confirm, ended, yes_option
from sm.core.lines import JsonObject, line
from sm.errors import UsageError


@click.command(help=__doc__)
@sessions_argument(ended_sessions, required=False)
@click.option(
    "--ended",
    "every",
    is_flag=True,
    help="Delete all ended sessions, with --workspace those of one workspace.",
)
@click.option(
    "--discard",
    is_flag=True,
    help="Delete worktrees and branches with unmerged work too. Only with SESSION.",
)
@workspace_option
@yes_option
@json_option
def command(
    sessions: tuple[str, ...], every: bool, discard: bool, workspace: str | None, yes: bool, call: Call
) -> int:
    check(sessions, "--ended", every=every, workspace=workspace)
    if every and discard:
        raise UsageError("--discard needs SESSION", "sm rm SESSION --discard")
    if every:
        return remove_chosen(call, ended(call.client, workspace, call.instance.session_id, now()), yes=yes)
    return _remove(call, sessions, discard=discard)


def remove_chosen(call: Call, sessions: Sequence[JsonObject], *, yes: bool) -> int:
    """Delete sessions that the command chose, after a confirmation; return the exit code."""
    if not sessions and not call.as_json:
        click.echo("no sessions to delete", err=True)
        return 0
    confirm("Delete", sessions, yes=yes)
    return _remove(call, [session["session_id"] for session in sessions], chosen=True)


def _remove(call: Call, sessions: Sequence[str], *, chosen: bool = False, discard: bool = False) -> int:
    removed: list[JsonObject] = []

    def done(session: JsonObject) -> str:
        removed.append(session)
        return f"Removed {line(session.get('label') or session['removed'])}"

    code = act_on_each(call, sessions, "remove", done, chosen=chosen)
    for session in removed:
        if session.get("worktree") is not None:
            from sm.cli.worktrees import clean

            warning = clean(session, discard=discard)
            print_warnings([warning] if warning else [])
    return code
