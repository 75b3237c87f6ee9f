"""Merge the branch of an agent's worktree into your branch.

Merges what the agent has committed on the branch of its worktree, or on a branch of its own that is checked out there.

Merges into the branch of the git worktree around the current directory, or else of the repository's main directory,
or into the branch of --onto, which need not be checked out anywhere. With --squash, all changes become one commit; with
--rebase, the commits are repeated on top of the branch.

Several agents are merged in the order in which they are given, up to the first one that cannot be merged. With
--dry-run, each one is tried in the outcome of those before it, and nothing changes. With --ask-agent, an agent whose
work has conflicts gets a message that asks it to rebase its branch.

The command changes nothing, and says why, if the agent has uncommitted changes, commits on no branch or on two, or
an unfinished rebase or merge, if your directory has uncommitted changes to tracked files or no branch, if the merge
would overwrite files that git does not track, if the command of --check fails, if it would point a submodule to a
commit that was not published and of which your repository has no copy, or if it has conflicts. git runs as you, without
programs that the repository names, and not at all where a sandboxed agent could ever write.

A commit of a submodule that only the agent has is copied into your repository's own copy of that submodule.

The changes of a copy (sm spawn --copy), committed or not, are merged into its directory, file by file: a file that the
directory has changed too gets both changes, or is named as a conflict, and then nothing changes. With --dry-run, each
copy is tried in the directory as it is. If the command is stopped halfway, the next sm merge finishes its work.

If the agent still works, the command merges its commits and warns that more may follow.

The worktree and its branch stay until sm rm.

\b
Examples:
  sm diff engineer-login && sm merge engineer-login
  sm merge engineer-login --squash
  sm merge engineer-login --dry-run
  sm merge engineer-login tester-login --onto release --ask-agent
  sm merge engineer-login --check 'make test'
"""

import shlex
from collections.abc import Sequence
from typing import Any

import click

from sm.cli.call import Call, json_option
from sm.cli.display.errors import print_warnings
from sm.cli.display.output import print_json, print_lines
from sm.cli.options import session_names, sessions_argument
from sm.client.http import new_key
from sm.core.lines import JsonObject, line, plural
from sm.core.session_lines import label
from sm.core.statuses import ENDED, Status
from sm.errors import SmError, UsageError
from sm.wire import encode

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from sm.capabilities.worktrees.merging import Merge, MergeOptions
    from sm.capabilities.worktrees.work import Work


@click.command(help=__doc__)
@sessions_argument(session_names)
@click.option("--squash", is_flag=True, help="Make one commit of all changes.")
@click.option(
    "--rebase", is_flag=True, help="Repeat the commits on top of the branch, without a merge commit."
)
@click.option(
    "--onto",
    metavar="BRANCH",
    help="Branch to merge into.  [default: the one of the current directory, else of the repository]",
)
@click.option(
    "--check",
    metavar="CMD",
    help="Merge only if this shell command succeeds. It runs in a directory of its own with the merged files.",
)
@click.option(
    "--dry-run", is_flag=True, help="Only say what would be merged, and which files have conflicts."
)
@click.option("--ask-agent", is_flag=True, help="Ask an agent whose work has conflicts to rebase its branch.")
@json_option
def command(sessions: Sequence[str], ask_agent: bool, call: Call, **given: Any) -> int:
    if given["squash"] and given["rebase"]:
        raise UsageError("--squash and --rebase cannot be used together")
    if given["dry_run"] and given["check"] is not None:
        raise UsageError("--dry-run and --check cannot be used together")
    from sm.capabilities.worktrees.merging import MergeOptions, MergeTrial, Way, works_to_merge

    way = Way.SQUASH if given["squash"] else Way.REBASE if given["rebase"] else Way.MERGE
    trial = MergeTrial() if given["dry_run"] else None
    options = MergeOptions(way, given["onto"], given["check"], trial)
    done: list[JsonObject] = []
    works = works_to_merge(call.client, sessions)
    _refuse_for_copies(works, given)
    for work in works:
        try:
            merged = _merged_copy if work.is_copy else _merged
            document, text = merged(call, work, options, ask_agent=ask_agent)
        except SmError:
            if done and call.as_json:
                print_json(encode(done))
            raise
        done.append(document)
        if not call.as_json:
            print_lines([text])
    if call.as_json:
        print_json(encode(done[0] if len(sessions) == 1 else done))
    return 0


def _merged(call: Call, work: "Work", options: "MergeOptions", *, ask_agent: bool) -> tuple[JsonObject, str]:
    """Merge the work of one session. Returns what was done as JSON and in words."""
    from sm.capabilities.worktrees.merging import MergeConflict, Way, merge

    try:
        done = merge(work, options)
    except MergeConflict as conflict:
        if ask_agent:
            _ask_for_rebase(call, work.session, conflict.into, conflict.files)
        raise
    _warn_of_more(work)
    if done is not None and done.submodules and done.top is not None:
        paths = ", ".join(line(path) for path in done.submodules)
        update = f"git -C {shlex.quote(line(done.top))} submodule update --init"
        print_warnings(
            [f"the merge moves submodules, whose files are not updated: {paths}; to update: {update}"]
        )
    if done is not None:
        _warn_of_copied(done)
    document = {
        "session_id": work.session["session_id"],
        "branch": done.branch if done else work.branch,
        "into": done and done.into,
        "directory": done and done.top,
        "commit": done and done.commit,
        "commits": done.commits if done else 0,
    }
    if done is None:
        return document, f"Nothing to merge: {line(work.branch)} has no new commits"
    commits = plural(done.commits, "commit")
    if options.trial is not None:
        return document, f"Can merge {line(done.branch)} into {line(done.into)}: {commits}, no conflicts"
    commits += " as one" if options.way is Way.SQUASH and done.commits > 1 else ""
    where = "" if done.top is None else f" in {line(done.top)}"
    return (
        document,
        f"Merged {line(done.branch)} into {line(done.into)}{where}: {commits}, now at {done.commit}",
    )


def _refuse_for_copies(works: "Sequence[Work]", given: dict[str, Any]) -> None:
    """Raise UsageError for options that need git's branches, if one of the works is in a copy."""
    copies = [work for work in works if work.is_copy]
    for option in ("squash", "rebase", "onto", "check"):
        if copies and given[option]:
            raise UsageError(
                f"--{option} is for git worktrees, and {label(copies[0].session)} works in a copy of a directory"
            )


def _merged_copy(
    call: Call, work: "Work", options: "MergeOptions", *, ask_agent: bool
) -> tuple[JsonObject, str]:
    """Merge the copy of one session. Returns what was done as JSON and in words."""
    from sm.capabilities.worktrees.copies.merging import CopyConflict
    from sm.capabilities.worktrees.merge_sources import copy_merger

    merger, directory, commits = *copy_merger(work), work.commits()
    try:
        done = merger.try_merge() if options.trial is not None else merger.merge()
    except CopyConflict as conflict:
        if ask_agent:
            _ask_for_changes(call, work.session, directory, conflict.files)
        raise
    _warn_of_more(work)
    files = [] if done is None else [*done.files]
    document = {
        "session_id": work.session["session_id"],
        "branch": work.branch,
        "into": None,
        "directory": directory,
        "commit": None,
        "commits": 0 if done is None else commits,
        "files": files,
    }
    if done is None:
        return (
            document,
            f"Nothing to merge: {line(directory, 4096)} has all changes of {line(work.top, 4096)}",
        )
    names = f"{plural(len(files), 'file')} ({', '.join(line(path, 200) for path in files[:5])}"
    names += f" and {len(files) - 5} more)" if len(files) > 5 else ")"
    if options.trial is not None:
        return (
            document,
            f"Can merge {line(work.top, 4096)} into {line(directory, 4096)}: {names}, no conflicts",
        )
    return document, f"Merged {line(work.top, 4096)} into {line(directory, 4096)}: {names}"


def _warn_of_more(work: "Work") -> None:
    status = work.session["status"]
    if status not in ENDED and status != Status.IDLE:
        name = label(work.session)
        print_warnings([f"{name} still works ({line(status)}): merge again when it has finished"])


def _warn_of_copied(done: "Merge") -> None:
    from sm.capabilities.worktrees.merging import publication

    for missing in done.copied:
        print_warnings(
            [
                f"the commit {missing.commit[:12]} of the submodule {line(missing.path)} was copied to "
                f"{line(missing.place)} and is in no branch that was pushed; before you push "
                f"{line(done.into)}: {publication(missing, missing.place)}"
            ]
        )


def _ask_for_rebase(call: Call, session: JsonObject, into: str, files: Sequence[str]) -> None:
    """Send the agent a message. A failure is a warning: the conflict is the error."""
    names = ", ".join(line(path, 200) for path in files[:20])
    text = (
        f"Your branch cannot be merged into {into}: both have changed {names}. Please rebase your branch onto "
        f"{into} (git rebase {shlex.quote(into)}), resolve the conflicts, run your checks again, and report when "
        "it is done."
    )
    _ask(call, session, text, f"to rebase its branch onto {line(into)}")


def _ask_for_changes(call: Call, session: JsonObject, directory: str, files: Sequence[str]) -> None:
    """Send the agent a message, as `_ask_for_rebase`."""
    names = ", ".join(line(path, 200) for path in files[:20])
    text = (
        f"Your copy cannot be merged into {directory}: both have changed {names}. Please bring the changes of these "
        f"files in {directory} into your copy, run your checks again, and report when it is done."
    )
    _ask(call, session, text, f"to bring the changes of {line(directory, 4096)} into its copy")


def _ask(call: Call, session: JsonObject, text: str, what: str) -> None:
    try:
        call.client.post("/v1/messages", {"to": session["session_id"], "text": text}, key=new_key())
    except SmError as error:
        print_warnings([f"{label(session)} was not asked: {error.message}"])
    else:
        print_warnings([f"asked {label(session)} {what}"])
