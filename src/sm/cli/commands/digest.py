"""Show what happened while you were away.

Shows on one screen, worst first: open requests with the commands to type, warnings, ended sessions, the spending of
each tree of sessions, changes in worktrees, and live sessions. A long section is cut, and names the command that shows
all of it. From an agent: the sessions that it sees.

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
from datetime import UTC, datetime

import click

from sm.cli.call import Call, json_option
from sm.cli.display.output import print_json, print_lines
from sm.cli.options import workspace_option
from sm.core.digest_lines import digest_lines
from sm.core.lines import JsonObject
from sm.errors import SmError
from sm.wire import encode

_HEIGHT, _WIDTH = 40, 160
_WORK_MAX = 20
"""Worktrees that are compared: git takes up to a second for each."""


@click.command(help=__doc__)
@click.option("--since", metavar="TIME", help="Only what happened since this time.  [default: 12 hours ago]")
@workspace_option
@json_option
def command(since: str | None, workspace: str | None, call: Call) -> None:
    query: dict[str, object] = {"workspace": workspace}
    if since is not None:
        from sm.cli.times import past_time

        query["since"] = past_time(since, datetime.now(UTC)).isoformat()
    digest = call.client.get("/v1/digest", query)
    shown = {**digest, "changes": _changes(call, digest)}
    if call.as_json:
        print_json(encode(shown))
        return
    size, on_terminal = shutil.get_terminal_size((_WIDTH, _HEIGHT)), sys.stdout.isatty()
    height = max(20, min(_HEIGHT, size.lines - 1)) if on_terminal else _HEIGHT
    width = max(40, size.columns) if on_terminal else _WIDTH
    print_lines(digest_lines(shown, datetime.now(UTC), height, width))


def _changes(call: Call, digest: JsonObject) -> list[JsonObject]:
    """The changed files and new commits of the sessions with a worktree, those of ended sessions first."""
    entries = [*digest["ended"], *digest["live"]]
    if not entries:
        return []
    sessions = {s["session_id"]: s for s in call.client.get("/v1/sessions", {"archived": True})}
    chosen = [e for e in entries if sessions.get(e["session_id"], {}).get("worktree")][:_WORK_MAX]
    return [change for entry in chosen if (change := _change(call, entry)) is not None]


def _change(call: Call, entry: JsonObject) -> JsonObject | None:
    """None: nothing changed, or git cannot compare, as when the worktree is gone or sandboxed agents wrote to it."""
    from sm.cli.work import work_of

    try:
        work = work_of(call.client, entry["session_id"])
        files, commits = work.files(), work.commits()
    except SmError:
        return None
    if not files and not commits:
        return None
    return {
        "session_id": entry["session_id"],
        "label": entry["label"],
        "branch": work.branch,
        "commits": commits,
        "files": len(files),
        "added": sum(file["added"] or 0 for file in files),
        "deleted": sum(file["deleted"] or 0 for file in files),
    }
