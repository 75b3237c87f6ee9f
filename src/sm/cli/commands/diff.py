"""Show what an agent changed since it began.

Shows commits, uncommitted changes and new files that git does not ignore: for an agent with a worktree
(sm spawn --worktree) since its branch began, for one with a copy (sm spawn --copy) since the copy was made or last
merged, for other agents since the commit that was checked out when they were created. Agents that share a directory
share its changes too. A new git repository inside the directory is left out until it has a commit. A submodule is
shown by its commit; the command warns if there are changes inside.

On a terminal, the output goes through your pager (PAGER, GIT_PAGER). Elsewhere it is a patch for git apply. git runs
as you, without programs that the repository names, and not at all where a sandboxed agent could ever write. A submodule
is shown by its commit.

The JSON has the base and every changed file with its numbers of added and deleted lines.

\b
Examples:
  sm diff engineer-login
  sm diff engineer-login --stat
"""

import click

from sm.cli.call import Call, json_option
from sm.cli.display.output import print_json
from sm.cli.options import session_argument
from sm.errors import UsageError
from sm.wire import encode


@click.command(help=__doc__)
@session_argument
@click.option("--stat", is_flag=True, help="Show only the changed files with the number of changed lines.")
@click.option("--name-only", is_flag=True, help="Show only the names of the changed files.")
@json_option
def command(session: str, stat: bool, name_only: bool, call: Call) -> int:
    from sm.capabilities.worktrees.git.submodules import hidden_changes_warning
    from sm.capabilities.worktrees.work import work_of
    from sm.cli.display.errors import print_warnings

    if stat + name_only + call.as_json > 1:
        raise UsageError("give only one of --stat, --name-only and --json")
    work = work_of(call.client, session, call.seen)
    if (warning := hidden_changes_warning(work.top)) is not None:
        print_warnings([warning])
    if not call.as_json:
        return work.show(*(["--stat"] if stat else []), *(["--name-only"] if name_only else []))
    shown = {"session_id": work.session["session_id"], "directory": work.top, "branch": work.branch}
    print_json(encode({**shown, "base": work.base, "files": work.files()}))
    return 0
