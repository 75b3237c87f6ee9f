"""Merge the branch of an agent's worktree into your branch.

Merges what the agent has committed on the branch of its worktree, or on a branch of its own that is checked out there.

Merges into the branch of the git worktree around the current directory, or else of the repository's main directory.
With --squash, all changes become one commit.

The command changes nothing, and says why, if the agent has uncommitted changes, commits on no branch or on two, or
an unfinished rebase or merge, if your directory has uncommitted changes to tracked files or no branch, if the merge
would overwrite files that git does not track, if it would point a submodule to a commit that was not published and that
the submodule of your directory does not have, or if it has conflicts. git runs as you, without programs that the
repository names, and not at all where a sandboxed agent could ever write.

If the agent still works, the command merges its commits and warns that more may follow.

The worktree and its branch stay until sm rm.

\b
Examples:
  sm diff engineer-login && sm merge engineer-login
  sm merge engineer-login --squash
"""

import shlex

import click

from sm.cli.call import Call, json_option
from sm.cli.display.errors import print_warnings
from sm.cli.options import session_argument
from sm.core.lines import line, plural
from sm.core.session_lines import label
from sm.core.statuses import ENDED, Status


@click.command(help=__doc__)
@session_argument
@click.option("--squash", is_flag=True, help="Make one commit of all changes.")
@json_option
def command(session: str, squash: bool, call: Call) -> None:
    from sm.capabilities.worktrees.work import merge, work_of

    work = work_of(call.client, session, {"seen": True})
    done = merge(work, squash=squash)
    status = work.session["status"]
    if status not in ENDED and status != Status.IDLE:
        name = label(work.session)
        print_warnings([f"{name} still works ({line(status)}): merge again when it has finished"])
    if done is not None and done.submodules:
        paths = ", ".join(line(path) for path in done.submodules)
        update = f"git -C {shlex.quote(line(done.top))} submodule update --init"
        print_warnings(
            [f"the merge moves submodules, whose files are not updated: {paths}; to update: {update}"]
        )
    document = {
        "session_id": work.session["session_id"],
        "branch": done.branch if done else work.branch,
        "into": done and done.into,
        "directory": done and done.top,
        "commit": done and done.commit,
        "commits": done.commits if done else 0,
    }
    if done is None:
        text = f"Nothing to merge: {line(work.branch)} has no new commits"
    else:
        commits = plural(done.commits, "commit")
        commits += " as one" if squash and done.commits > 1 else ""
        text = f"Merged {line(done.branch)} into {line(done.into)} in {line(done.top)}: {commits}, now at {done.commit}"
    call.show_value(document, lambda _: [text])
