"""Show tokens, cost and time of groups of sessions.

Groups by type, model, day, account or tree. Includes ended, archived and removed sessions. From an agent: its own
session and its descendants. A cost with a + is not the whole cost: the price of a model, or some tokens, are unknown.
Tokens with a + are not all: some cannot be read.

\b
Columns:
  ENDINGS    how often sessions ended, by kind
  TOKENS     input and output
  CACHE      tokens read from and written to the cache
  MINUTES    minutes of work: running and not paused
  REMINDED   reminders to report
  RETRIED    retries after faults of the service
  COST EACH  cost of a completed session: the median and the 90th percentile
  TIME EACH  its time from start to end, at least its work: likewise

\b
Examples:
  sm usage
  sm usage --by day --since 2026-11-20
  sm usage --by tree --since 22:00 --json
"""

import click

from sm.cli.call import Call, json_option
from sm.cli.display.output import print_lines, print_table
from sm.cli.display.sums import report_table
from sm.cli.options import workspace_option
from sm.client.http import Client, decode_answer

_GROUPINGS = ("type", "model", "day", "account", "tree")


@click.command(help=__doc__)
@click.option(
    "--by",
    type=click.Choice(_GROUPINGS),
    default="type",
    show_default=True,
    metavar="GROUPING",
    help=f"How to group: {', '.join(_GROUPINGS[:-1])} or {_GROUPINGS[-1]}. Days are local days.",
)
@click.option(
    "--since",
    metavar="TIME",
    help="Only usage since this time: a date, yesterday, 22:00 or an age such as 8h.",
)
@workspace_option
@json_option
def command(by: str, since: str | None, workspace: str | None, call: Call) -> None:
    query = {"by": by, "since": _start(since, call.client), "workspace": workspace}
    text = call.client.text("GET", "/v1/usage/report", query)
    if call.as_json:
        call.show(text, lambda _: ())
        return
    report = decode_answer(text)
    print_table(report_table(report))
    if report["prices_as_of"] and report["total"]["cost_usd"] is not None:
        print_lines([f"List prices of {report['prices_as_of']}"])


def _start(since: str | None, client: Client) -> str | None:
    if since is None:
        return None
    from sm.cli.times import since_time

    return since_time(since, client)
