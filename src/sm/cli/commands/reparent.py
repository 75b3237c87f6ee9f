"""Give a session another parent, who is told of it from then on.

\b
Example:
  sm reparent engineer-login architect-review
"""

import click

from sm.cli.call import Call, json_option
from sm.cli.display.sessions import label
from sm.cli.options import session_argument, session_names
from sm.client.http import session_path
from sm.errors import UsageError


@click.command(help=__doc__)
@session_argument
@click.argument("parent", metavar="[PARENT]", required=False, shell_complete=session_names)
@click.option("--operator", is_flag=True, help="To the operator: it has no parent then.")
@json_option
def command(session: str, parent: str | None, operator: bool, call: Call) -> None:
    if (parent is None) is not operator:
        raise UsageError("either PARENT or --operator is needed", "sm reparent --help")
    call.post(
        session_path(session, "/reparent"),
        lambda moved: [f"{label(moved)} belongs to {moved['parent_session_id'] or 'the operator'} now"],
        {"parent": parent},
    )
