"""Delete ended sessions and their files.

Deletes a session's messages, terminal and files; its events are kept.

A git worktree from sm spawn --worktree is deleted too, including files that git ignores, and so is its branch. The
worktree is kept if another session works in it, or if a command of worktrees.teardown in config.yaml fails. --discard
deletes it in spite of such a failure.

The session is not deleted while its worktree has work that exists nowhere else: uncommitted or untracked files, commits
in no other branch or tag, commits of a submodule, or an unfinished rebase, merge or bisect. sm diff shows this work
and sm merge merges it. --discard names it, asks a person and deletes it; without a terminal it needs --yes, and an
agent may not do it. Where sm must not run git, --discard deletes only the session.

A copy from sm spawn --copy is deleted when its directory has all changes and commits of it.

With --ended: every ended session that is not archived; from an agent, only its descendants. A session whose process
still runs is skipped. One with such work is skipped too, and listed at the end. On a terminal, the command asks before.
sm prune chooses by age.

If the command fails for one session, it continues with the next one. The exit code is that of the first failure.
With several sessions or --ended, the JSON is an array.

\b
Examples:
  sm rm engineer-login
  sm rm --ended --workspace shop
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from sm.cli.bulk import act_on_each
from sm.cli.call import Call, json_option
from sm.cli.display.errors import print_warnings
from sm.cli.display.output import now
from sm.cli.options import ended_sessions, sessions_argument, workspace_option
from sm.cli.selection import check, confirm, ended, seconds_of, yes_option
from sm.client.http import new_key, session_path
from sm.core.lines import JsonObject, line, plural
from sm.core.session_lines import has_process
from sm.errors import IllegalState, NotPermitted, SmError, UsageError

if TYPE_CHECKING:
    from sm.cli.worktrees import UnsavedWork


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
    help="Delete worktrees with unmerged work, or with a failing tear-down, too. Only with SESSION.",
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
    kept: dict[str, SmError] = {}
    found = {reference: _session(call, reference) for reference in sessions}
    leaving = _branches(filter(None, found.values()))
    given_up = dict[str, Collection[str]]()
    for reference, session in found.items():
        try:
            if session is not None:
                items = _check_work(call, session, leaving, discard=discard, yes=yes)
                given_up |= {} if items is None else {session["session_id"]: items}
        except (IllegalState, NotPermitted) as error:
            if len(sessions) == 1:
                raise
            kept[reference] = error
    # By id: another session may get the name since, and its worktree was not looked at.
    named = [_id(found[name], name) for name in sessions if name not in kept]
    code = _remove(call, named, given_up)
    print_warnings([f"kept: {error.message}; {error.hint}" for error in kept.values()])
    return code or next((error.exit_code for error in kept.values()), 0)


def remove_chosen(call: Call, sessions: Sequence[JsonObject], *, yes: bool) -> int:
    """Delete sessions that the command chose, after a confirmation; return the exit code.

    Sessions with work that exists nowhere else stay, and are listed at the end.
    """
    leaving = _branches(sessions)
    looked = {s["session_id"]: _unsaved_work(call, s, leaving) for s in sessions}
    kept = {session_id: work for session_id, work in looked.items() if work is not None}
    chosen = [session for session in sessions if session["session_id"] not in kept]
    code = 0
    if chosen:
        confirm("Delete", chosen, yes=yes)
    if chosen or call.as_json:
        code = _remove(call, [session["session_id"] for session in chosen], chosen=True)
    else:
        click.echo("no sessions to delete", err=True)
    if kept:
        found = f"kept {plural(len(kept), 'session')} with work that exists nowhere else"
        commands = "to keep the work: sm merge SESSION; to delete it: sm rm SESSION --discard"
        print_warnings([f"{found}; {commands}", *(work.summary() for work in kept.values())])
    return code


def _session(call: Call, reference: str) -> JsonObject | None:
    """The session, or None if it cannot be read: its removal says why."""
    try:
        session: JsonObject = call.client.get(session_path(reference))
    except SmError:
        return None
    return session


def _id(session: JsonObject | None, reference: str) -> str:
    return reference if session is None else str(session["session_id"])


def _branches(sessions: Iterable[JsonObject]) -> list[str]:
    """The branches of their worktrees, which are removed together."""
    return [str(s["worktree"]["branch"]) for s in sessions if s["worktree"] is not None]


def _check_work(
    call: Call, session: JsonObject, leaving: Sequence[str], *, discard: bool, yes: bool
) -> Collection[str] | None:
    """Return the items of work that were named and that a person gives up, or None if `--discard` does not count.

    Without work there are none, but the worktree is removed also if its tear-down fails.

    Raises IllegalState or NotPermitted for work that nobody has given up.
    """
    by_session = call.instance.session_id is not None
    if (work := _unsaved_work(call, session, leaving)) is None:
        return frozenset() if discard and not by_session else None
    if not discard:
        raise work.refusal()
    from sm.cli.worktrees import check_discard

    return check_discard(work, by_session=by_session, yes=yes)


def _unsaved_work(call: Call, session: JsonObject, leaving: Sequence[str]) -> "UnsavedWork | None":
    if session["worktree"] is None or has_process(session):  # the daemon refuses the second one
        return None
    from sm.cli.worktrees import unsaved_work_of

    return unsaved_work_of(call.client, session, leaving)


def _remove(
    call: Call,
    sessions: Sequence[str],
    given_up: Mapping[str, Collection[str]] | None = None,
    *,
    chosen: bool = False,
) -> int:
    """Delete sessions and their worktrees. `given_up`: the work that a person gives up, by their ids."""
    asked, removed = list[tuple[str, str]](), list[tuple[str, str, JsonObject]]()

    def key_of(reference: str) -> str:
        asked.append((session_path(reference, "/remove"), new_key()))
        return asked[-1][1]

    def done(session: JsonObject) -> str:
        removed.append((*asked[-1], session))
        return f"Removed {line(session.get('label') or session['removed'])}"

    code = act_on_each(call, sessions, "remove", done, chosen=chosen, key_of=key_of)
    if removed:
        from sm.cli.worktrees import Removal, clean_up

        removals = [
            Removal(path, key, answer, (given_up or {}).get(answer["removed"]))
            for path, key, answer in removed
        ]
        clean_up(call.client, removals)
    return code


@click.command()
@click.option(
    "--older-than",
    metavar="AGE",
    default="0s",
    help="Only sessions that ended at least this long ago: 30m, 12h, 1d or 2w.",
)
@click.option("--archived", is_flag=True, help="Delete archived sessions too.")
@workspace_option
@yes_option
@json_option
def prune_command(older_than: str, archived: bool, workspace: str | None, yes: bool, call: Call) -> int:
    """Delete all ended sessions, or those of a certain age.

    Deletes sessions as sm rm does: messages, terminals, files and worktrees. Archived sessions and sessions whose
    process still runs are kept. A session with work that exists nowhere else is kept and listed at the end. From an
    agent: only its descendants. On a terminal, the command asks before.

    The JSON is an array of the deleted sessions.

    \b
    Examples:
      sm prune --older-than 1d
    """
    least_s = seconds_of(older_than)
    session_id = call.instance.session_id
    found = ended(call.client, workspace, session_id, now(), archived=archived, older_than_s=least_s)
    return remove_chosen(call, found, yes=yes)
