"""Delete ended sessions and their files.

Deletes a session's messages, terminal and files; its events are kept.

A git worktree from sm spawn --worktree is deleted too, including files that git ignores. The worktree is kept if it
has uncommitted or untracked files, a commit that is in no branch or tag, or an unfinished rebase, merge or bisect.
It is also kept if another session works in it. Its branch is kept if it has commits that exist nowhere else. sm diff
shows this work and sm merge merges it; --discard deletes it.

The session is not deleted while a commit of a submodule exists only in its worktree. --discard names such commits and
asks a person first; without a terminal it needs --yes, and an agent may not do it.

With --ended: every ended session that is not archived; from an agent, only its descendants. A session whose process
still runs is skipped. On a terminal, the command asks before. sm prune chooses by age.

If the command fails for one session, it continues with the next one. The exit code is that of the first failure.
With several sessions or --ended, the JSON is an array.

\b
Examples:
  sm rm engineer-login
  sm rm --ended --workspace shop
"""

import sys
from collections.abc import Sequence

import click

from sm.cli.bulk import act_on_each
from sm.cli.call import Call, json_option
from sm.cli.display.errors import print_warnings
from sm.cli.display.output import now
from sm.cli.options import ended_sessions, sessions_argument, workspace_option
from sm.cli.selection import ask, check, confirm, ended, yes_option
from sm.client.http import session_path
from sm.core.lines import JsonObject, line
from sm.core.session_lines import label, name_to_type
from sm.errors import ExternalError, IllegalState, NotPermitted, SmError, UsageError


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
    kept = refuse_only_copies(call, sessions, discard=discard, yes=yes)
    code = _remove(call, [session for session in sessions if session not in kept], discard=discard)
    return code or next(iter(kept.values()), 0)


def remove_chosen(call: Call, sessions: Sequence[JsonObject], *, yes: bool) -> int:
    """Delete sessions that the command chose, after a confirmation; return the exit code."""
    if not sessions and not call.as_json:
        click.echo("no sessions to delete", err=True)
        return 0
    confirm("Delete", sessions, yes=yes)
    kept = refuse_only_copies(call, [session["session_id"] for session in sessions], chosen=True)
    return _remove(call, [s["session_id"] for s in sessions if s["session_id"] not in kept], chosen=True)


def refuse_only_copies(
    call: Call, sessions: Sequence[str], *, chosen: bool = False, discard: bool = False, yes: bool = False
) -> dict[str, int]:
    """Find the sessions that must stay, because commits of a submodule exist only in their worktree.

    Returns them with the exit code; says why. With `discard`, a person may agree, at a terminal or with `yes`. Raises
    the error of a single session.
    """
    kept: dict[str, int] = {}
    for reference in sessions:
        try:
            _refuse_only_copy(call, reference, discard=discard, yes=yes)
        except (IllegalState, NotPermitted) as error:
            if len(sessions) == 1 and not chosen:
                raise
            kept[reference] = 0 if chosen else error.exit_code
            print_warnings([f"skipped: {error.message}"])
    return kept


def _refuse_only_copy(call: Call, reference: str, *, discard: bool, yes: bool) -> None:
    try:
        session = call.client.get(session_path(reference))
    except SmError:
        return  # its removal says why
    if session["worktree"] is None:
        return
    from sm.cli.submodules import session_copies
    from sm.cli.worktrees import may_run_git

    try:
        copies = session_copies(session, sandboxed=not may_run_git(call.client, session))
    except (ExternalError, IllegalState):  # where git does not run, the worktree is kept
        return
    if not copies:
        return
    path = line(session["worktree"]["path"])
    found = f"commits that exist only in the worktree {path}: {'; '.join(map(str, copies))}"
    if not discard:
        raise IllegalState(
            f"{label(session)} has {found}",
            f"push them from the submodule, or delete them: sm rm {name_to_type(session)} --discard",
        )
    if call.instance.session_id is not None:
        raise NotPermitted(f"only the operator may delete {found}", "push them from the submodule")
    if not yes and not (sys.stdin.isatty() and sys.stderr.isatty()):
        hint = f"to delete them: sm rm {name_to_type(session)} --discard --yes"
        raise IllegalState(f"--discard would delete {found}", hint)
    ask(f"Delete {found}?", yes=yes)


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
