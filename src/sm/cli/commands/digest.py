"""Show what happened while you were away.

Shows on one screen, worst first: open requests with the commands to type, warnings, ended sessions, the spending of
each tree of sessions, changes in worktrees, and live sessions. A long section is cut, and names the command that shows
all of it. From an agent: the sessions that it sees.

Worktrees are compared for at most 10 seconds, those of live sessions first. A worktree that git cannot compare in time,
or at all, is listed with the reason (in the JSON: not_compared).

--since takes a time of the day (the last time the clock showed it), an age such as 8h, or a date and a time. With
notify.digest_at in config.yaml you get the digest each day, without the changes in worktrees: in your inbox, by
notify.command, in Telegram, and by the webhooks that list the event digest.

\b
Examples:
  sm digest
  sm digest --since 22:00
  sm digest --since 8h --workspace shop
"""

import shutil
import sys
from dataclasses import asdict
from datetime import UTC, datetime

import click

from sm.capabilities.digest.screen import digest_lines
from sm.cli.call import Call, json_option
from sm.cli.display.output import print_json, print_lines
from sm.cli.options import workspace_option
from sm.wire import encode

_HEIGHT, _WIDTH = 40, 160


@click.command(help=__doc__)
@click.option("--since", metavar="TIME", help="Only what happened since this time.  [default: 12 hours ago]")
@workspace_option
@json_option
def command(since: str | None, workspace: str | None, call: Call) -> None:
    query: dict[str, object] = {"workspace": workspace}
    if since is not None:
        from sm.cli.times import since_time

        query["since"] = since_time(since, call.client)
    digest = call.client.get("/v1/digest", query)
    from sm.capabilities.worktrees.changes import worktree_changes

    shown = {**digest, **asdict(worktree_changes(call.client, digest))}
    if call.as_json:
        print_json(encode(shown))
        return
    size, on_terminal = shutil.get_terminal_size((_WIDTH, _HEIGHT)), sys.stdout.isatty()
    height = max(20, min(_HEIGHT, size.lines - 1)) if on_terminal else _HEIGHT
    width = size.columns if on_terminal else _WIDTH
    print_lines(digest_lines(shown, datetime.now(UTC), height, width))
