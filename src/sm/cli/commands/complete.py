"""Report that the work is done, or why it failed.

Only agents can run this command. In supervised mode (child_agents.mode in the configuration) the command only
proposes the completion. The session ends when the completion is approved (sm approve).

\b
Examples:
  sm complete "Feature X implemented, all 26 tests pass"
  sm complete "No API key here" --status error
"""

import click

from sm.cli.display.errors import print_warnings
from sm.cli.options import TextCommand, WordChoice
from sm.cli.report import send_report
from sm.core.statuses import ENDED, Status

_MARKED: dict[str, str] = {
    Status.COMPLETED: "complete",
    Status.ERROR: "as error",
    Status.ABANDONED: "as abandoned",
}


@click.command(help=__doc__, cls=TextCommand)
@click.argument("message", required=False)
@click.option(
    "--status",
    type=WordChoice([*map(str, _MARKED)]),
    default=str(Status.COMPLETED),
    show_default=True,
    metavar="STATUS",
    help="How the work ended: completed, error or abandoned.",
)
def command(message: str | None, status: str) -> None:
    session = send_report("complete", "complete", {"message": message, "status": status})
    if session is None:
        return
    print_warnings(session.get("warnings") or [])
    if session["status"] not in ENDED:
        click.echo("Completion proposed; waiting for approval.")
        return
    notifying = " Notifying parent." if session["parent_session_id"] else ""
    click.echo(f"Session marked {_MARKED[status]}.{notifying}")
