"""Delete all ended sessions, or those of a certain age.

Deletes sessions as sm rm does: messages, terminals, files and worktrees. Archived sessions and sessions whose process
still runs are kept. A session with work that exists nowhere else is kept and listed at the end. From an agent: only its
descendants. On a terminal, the command asks before.

The JSON is an array of the deleted sessions.

\b
Examples:
  sm prune --older-than 1d
"""

import click

from sm.cli.call import Call, json_option
from sm.cli.commands.rm import remove_chosen
from sm.cli.display.output import now
from sm.cli.options import workspace_option
from sm.cli.selection import ended, seconds_of, yes_option


@click.command(help=__doc__)
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
def command(older_than: str, archived: bool, workspace: str | None, yes: bool, call: Call) -> int:
    least_s = seconds_of(older_than)
    session_id = call.instance.session_id
    found = ended(call.client, workspace, session_id, now(), archived=archived, older_than_s=least_s)
    return remove_chosen(call, found, yes=yes)
