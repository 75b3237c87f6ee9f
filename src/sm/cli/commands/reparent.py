"""Move a session under another parent.

The new parent gets the session's future notifications. Give either PARENT or --operator.

\b
Examples:
  sm reparent engineer-login architect-review
  sm reparent engineer-login --operator
"""

import click

from sm.cli.call import Call, json_option
from sm.cli.options import running_sessions, session_argument
from sm.client.http import session_path
from sm.core.lines import line
from sm.core.session_lines import label
from sm.errors import UsageError


@click.command(help=__doc__)
@session_argument
@click.argument("parent", metavar="[PARENT]", required=False, shell_complete=running_sessions)
@click.option(
    "--operator", is_flag=True, help="Move the session to the operator (you), so that it has no parent."
)
@json_option
def command(session: str, parent: str | None, operator: bool, call: Call) -> None:
    if (parent is None) is not operator:
        raise UsageError("give either PARENT or --operator", "sm reparent --help")
    call.post(
        session_path(session, "/reparent"),
        lambda moved: [f"{label(moved)} now belongs to {line(moved['parent_label'] or 'the operator')}"],
        {"parent": parent},
    )
