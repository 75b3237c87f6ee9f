"""Report that the work is done, or why not.

\b
Example:
  sm complete "Feature X implemented, all 26 tests pass"
  sm complete "No API key here" --status error
"""

import click

from sm.cli.display.errors import print_warnings
from sm.cli.report import send_report
from sm.core.statuses import ENDED, Status

_MARKED: dict[str, str] = {
    Status.COMPLETED: "complete",
    Status.ERROR: "as error",
    Status.ABANDONED: "as abandoned",
}


@click.command(help=__doc__)
@click.argument("message", required=False)
@click.option(
    "--status", type=click.Choice([*map(str, _MARKED)]), default=str(Status.COMPLETED), show_default=True
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
